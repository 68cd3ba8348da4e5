/**
 * A shorter draft for one request, on the engines that have a field for it. vLLM, SGLang and TensorRT-LLM have none: there
 * this changes nothing, and another action is the better one. llama.cpp's field is known to be ignored by some builds.
 */
import type { EngineName } from './request-record.js';

const fieldOf: Partial<Readonly<Record<EngineName, (draftLength: number) => readonly [string, unknown]>>> = {
  'llama-cpp': (draftLength) => ['speculative.n_max', draftLength],
  mistletoe: (draftLength) => ['mistletoe', { draft: `chain:${Math.max(1, draftLength)}` }],
};

export function canShortenDrafts(engine: EngineName): boolean {
  return fieldOf[engine] !== undefined;
}

/** The body with the field in front of its others, or undefined where it cannot be or is the client's. */
export function shortenDrafts(
  engine: EngineName,
  body: Uint8Array,
  draftLength: number,
): Uint8Array | undefined {
  const field = fieldOf[engine]?.(draftLength);
  if (field === undefined) return undefined;
  const [name, value] = field;
  const text = Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString();
  if (text.includes('\ufffd')) return undefined; // not UTF-8: it would not come back byte for byte
  try {
    const request: unknown = JSON.parse(text);
    if (typeof request !== 'object' || request === null || Array.isArray(request)) return undefined;
    if (Object.hasOwn(request, name)) return undefined;
    const isEmpty = Object.keys(request).length === 0;
    const written = `${JSON.stringify(name)}:${JSON.stringify(value)}${isEmpty ? '' : ','}`;
    const brace = text.indexOf('{') + 1;
    return Buffer.from(text.slice(0, brace) + written + text.slice(brace));
  } catch {
    return undefined;
  }
}
