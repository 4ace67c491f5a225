// Prints the packages of the lock file in the current directory that suit this platform and are not
// installed.
import { existsSync, readFileSync } from "node:fs";

const libc = process.report.getReport().header.glibcVersionRuntime ? "glibc" : "musl";

// A list of package.json names what suits, or, each with a "!", what does not.
const suits = (list, own) =>
  !list || list.includes(own) || (list[0].startsWith("!") && !list.includes(`!${own}`));

const { packages } = JSON.parse(readFileSync("package-lock.json", "utf8"));
const missing = Object.entries(packages).filter(
  ([path, { os, cpu, libc: wanted }]) =>
    suits(os, process.platform) &&
    suits(cpu, process.arch) &&
    (process.platform !== "linux" || suits(wanted, libc)) &&
    !existsSync(`${path || "."}/package.json`),
);
console.log(missing.map(([path]) => path).join(" "));
