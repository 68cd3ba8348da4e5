/**
 * Values that a request may hold by the hundred thousand: lists and texts. They are looked through once, up to the first
 * fault; a schema would note down every one of them, and keep everybody else waiting meanwhile.
 */

/** Halves of a character cannot be encoded, and no text of a model matches them. */
export function isText(value: unknown): value is string {
  return typeof value === 'string' && !/\p{Surrogate}/u.test(value);
}

const isFilled = (value: unknown): value is string => isText(value) && value !== '';

const isToken = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;

export type Prompt = string | number[] | string[] | number[][];

/** A text, token ids, or a list of either, none of them empty. */
export function isPrompt(value: unknown): value is Prompt {
  if (typeof value === 'string') return isFilled(value);
  if (!Array.isArray(value) || value.length === 0) return false;
  const [first] = value as readonly unknown[];
  if (typeof first === 'string') return value.every(isFilled);
  return Array.isArray(first) ? value.every(isTokenList) : isTokenList(value);
}

function isTokenList(value: unknown): value is number[] {
  return Array.isArray(value) && value.length > 0 && value.every(isToken);
}

export interface TextPart {
  readonly type: 'text';
  readonly text: string;
}
export type Content = string | readonly TextPart[];

/** A text, or a list of parts that are texts. */
export function isContent(value: unknown): value is Content {
  return isText(value) || (Array.isArray(value) && value.length > 0 && value.every(isTextPart));
}

function isTextPart(value: unknown): value is TextPart {
  if (typeof value !== 'object' || value === null || Object.keys(value).length !== 2) return false;
  return 'type' in value && value.type === 'text' && 'text' in value && isText(value.text);
}

export const maxStops = 4;
const maxStopLength = 1000;

/** A text that ends answers, or a list of them. */
export function isStop(value: unknown): value is string | string[] {
  const isOne = (each: unknown): boolean => isFilled(each) && each.length <= maxStopLength;
  return Array.isArray(value) ? value.length <= maxStops && value.every(isOne) : isOne(value);
}

export function isMetadata(value: unknown): value is Readonly<Record<string, string>> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  return Object.values(value).every((each) => typeof each === 'string');
}

/**
 * Whether a value is one that is allowed, looking no deeper than that one is.
 */
export function isSame(allowed: unknown, given: unknown): boolean {
  if (typeof allowed !== 'object' || allowed === null) return allowed === given;
  if (typeof given !== 'object' || given === null || Array.isArray(given) !== Array.isArray(allowed))
    return false;
  const entries = Object.entries(allowed);
  return (
    entries.length === Object.keys(given).length &&
    entries.every(
      ([key, value]) => Object.hasOwn(given, key) && isSame(value, given[key as keyof typeof given]),
    )
  );
}
