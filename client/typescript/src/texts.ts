// Checks of texts. The general encoder would replace characters that UTF-8 cannot express, and
// would write the number 5 and null as the ids "5" and "null".
import { ScalarType, type DescMessage, type MessageShape } from "@bufbuild/protobuf";
import { FeedFilterError } from "./errors.js";

/** Throws unless the value is a string that UTF-8 can express. */
export function checkText(value: unknown, place: string): void {
  if (typeof value !== "string") throw wrong("invalid_type", "not a string", place);
  if (!isText(value)) throw wrong("invalid_id", "not valid Unicode", place);
}

/** Whether a value is a string without lone surrogates. */
export function isText(value: unknown): boolean {
  return typeof value === "string" && !/\p{Surrogate}/u.test(value);
}

/** Returns the error of one part of a request. */
function wrong(code: string, why: string, place: string): FeedFilterError {
  return new FeedFilterError(`${place}: ${why}`, { code, field: place });
}

/** Checks all texts of a message. */
export function checkTexts<D extends DescMessage>(schema: D, message: MessageShape<D>, within = ""): void {
  for (const field of schema.fields) {
    const value = (message as Record<string, unknown>)[field.localName];
    const place = within + field.name;
    if (value === undefined && field.proto.proto3Optional) continue;
    if (field.fieldKind === "message" && value !== undefined) {
      checkTexts(field.message, value as MessageShape<DescMessage>, `${place}.`);
    } else if (field.fieldKind === "scalar" && field.scalar === ScalarType.STRING) {
      checkText(value, place);
    } else if (field.fieldKind === "list") {
      (value as unknown[]).forEach((element, i) => {
        if (field.listKind === "message") checkTexts(field.message, element as MessageShape<DescMessage>, `${place}[${i}].`);
        else if (field.listKind === "scalar" && field.scalar === ScalarType.STRING) checkText(element, `${place}[${i}]`);
      });
    }
  }
}
