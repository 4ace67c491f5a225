// Numbers in words. Each function that has a unit returns [text, unit], so that their styles can
// differ.

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const digits = (n) => new Intl.NumberFormat('en', { maximumSignificantDigits: n });

// Numbers and their units stay on one line.
const space = '\u00a0';

/** none stands for a figure that is not known. */
export const none = '–';

const known = (n) => typeof n === 'number' && Number.isFinite(n);

/** count is a whole number, written out below ten million. */
export function count(n) {
  if (!known(n)) return none;
  if (Math.abs(n) < 1e7) return whole.format(n);
  return n < 1e9 ? `${digits(3).format(n / 1e6)}${space}million` : `${digits(3).format(n / 1e9)}${space}billion`;
}

/** short is a number for the side of a chart. */
export function short(n) {
  return new Intl.NumberFormat('en', { notation: 'compact', maximumSignificantDigits: 3 }).format(n);
}

/** plural is a count of things: plural(1, 'page') is "1 page". */
export function plural(n, one, many = `${one}s`) {
  return `${count(n)}${space}${n === 1 ? one : many}`;
}

/** number has three significant digits, and is written out from a thousand on. */
export function number(n) {
  if (!known(n)) return none;
  if (Math.abs(n) >= 1000) return count(n);
  return n !== 0 && Math.abs(n) < 0.001 ? '< 0.001' : digits(3).format(n);
}

/** seconds is a time that something takes. */
export function seconds(s) {
  if (!known(s)) return [none, ''];
  if (s === 0) return ['0', 'ms'];
  if (s < 1e-3) return [digits(3).format(s * 1e6), 'µs'];
  if (s < 1) return [digits(3).format(s * 1e3), 'ms'];
  if (s < 120) return [digits(3).format(s), 's'];
  return [span(s), ''];
}

/** span is a time in the one or two units that matter: "3 s", "4 min", "2 h 5 min", "6 days". */
export function span(s) {
  if (!known(s)) return none;
  if (s < 120) return `${whole.format(Math.max(0, s))}${space}s`;
  const minutes = Math.floor(s / 60);
  if (minutes < 120) return `${minutes}${space}min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return minutes % 60 ? `${hours}${space}h ${minutes % 60}${space}min` : `${hours}${space}h`;
  return `${whole.format(hours / 24)}${space}days`;
}

/** bytes is an amount of memory. */
export function bytes(n) {
  if (!known(n)) return [none, ''];
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let i = 0;
  for (; Math.abs(n) >= 1024 && i < units.length - 1; i++) n /= 1024;
  return [i === 0 ? whole.format(n) : digits(3).format(n), units[i]];
}

/** percent is a share of 0 to 1. */
export function percent(share) {
  if (!known(share)) return [none, ''];
  const p = share * 100;
  if (p === 0) return ['0', '%'];
  if (p < 0.0001) return ['< 0.0001', '%'];
  return [digits(p < 10 ? 2 : 3).format(p), '%'];
}

/** together joins what a function with a unit returned. */
export function together([text, unit]) {
  return unit === '' ? text : `${text}${space}${unit}`;
}

/** clock is the time of day of a Date, as this browser's zone has it. */
export function clock(date) {
  return date.toLocaleTimeString('en-GB');
}

/** at is a time of the API: the time of day if it was today, otherwise with the date. */
export function at(iso) {
  const date = new Date(iso);
  const today = date.toDateString() === new Date().toDateString();
  return today ? clock(date) : moment(iso);
}

/** moment is a time of the API in this browser's zone, which it names. */
export function moment(iso) {
  const date = new Date(iso);
  if (Number.isNaN(date.getTime())) return String(iso);
  return date.toLocaleString('en-GB', {
    day: 'numeric', month: 'short', year: 'numeric', hour: '2-digit', minute: '2-digit', second: '2-digit', timeZoneName: 'short',
  });
}
