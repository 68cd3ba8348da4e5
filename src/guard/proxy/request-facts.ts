/** What the guard needs to know of a request body. Bodies are untrusted: a bad one only leaves facts out. */
import type { JsonObject } from '../engines/claim.js';
import { asObject } from '../engines/claim.js';
import type { RawHeaders } from './message-headers.js';
import { valuesOf } from './message-headers.js';

export interface RequestBody {
  readonly text: string;
  readonly json: JsonObject;
}

const maxNameCharacters = 256;

/** Undefined where the body is compressed or not a JSON object. */
export function parseRequestBody(rawHeaders: RawHeaders, body: Buffer | undefined): RequestBody | undefined {
  if (body === undefined || body.length === 0) return undefined;
  const encoding = valuesOf(rawHeaders, 'content-encoding')[0];
  if (encoding !== undefined && !/^\s*(?:identity)?\s*$/i.test(encoding)) return undefined;
  const text = body.toString();
  const json = asObject(parse(text) ?? parse(text.replace(beyondJson, '0').replace(/^\ufeff/, '')));
  return json === undefined ? undefined : { text, json };
}

/** Python's parser accepts these, and a byte order mark. */
const beyondJson = /(?<=[:[,]\s*)-?(?:NaN|Infinity)(?=\s*[,}\]])/g;

function parse(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/** Writing text back as UTF-8 must give the client's bytes. */
export function isEditable({ text }: RequestBody, body: Buffer): boolean {
  return !text.includes('\ufffd') && Buffer.byteLength(text) === body.length;
}

export function modelOf(body: RequestBody | undefined): string | null {
  const model = body?.json.model;
  return typeof model === 'string' && model !== '' ? model.slice(0, maxNameCharacters) : null;
}
