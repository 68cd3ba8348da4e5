/**
 * zod for untrusted data. zod's own lists and records collect the faults of all their items, and each fault takes about
 * 500 bytes: 20 kB of compressed JSON cost gigabytes. The ones here end at the first faulty item. Every schema has them,
 * because only this file imports zod.
 */
import { core, custom, type output, ZodArray, type ZodError, ZodRecord, type ZodType } from 'zod';

export * from 'zod';

const FirstFaultArray = core.$constructor<ZodArray>('FirstFaultArray', (inst, def) => {
  ZodArray.init(inst, def);
  const parse = inst._zod.parse.bind(inst._zod);
  inst._zod.parse = (payload, context) => {
    const items: unknown = payload.value;
    if (!Array.isArray(items)) return parse(payload, context);
    const read: unknown[] = [];
    for (const [index, value] of (items as readonly unknown[]).entries()) {
      const result = expectSync(def.element._zod.run({ value, issues: [] }, context));
      if (result.issues.length > 0) {
        payload.issues.push(...core.util.prefixIssues(index, result.issues));
        return payload;
      }
      read.push(result.value);
    }
    payload.value = read;
    return payload;
  };
});

const FirstFaultRecord = core.$constructor<ZodRecord>('FirstFaultRecord', (inst, def) => {
  ZodRecord.init(inst, def);
  const parse = inst._zod.parse.bind(inst._zod);
  inst._zod.parse = (payload, context) => {
    const entries: unknown = payload.value;
    // A record with a list of keys has at most as many faults.
    if (!core.util.isPlainObject(entries) || def.keyType._zod.values !== undefined)
      return parse(payload, context);
    const read: Record<PropertyKey, unknown> = {};
    for (const key of Object.keys(entries)) {
      if (key === '__proto__') continue;
      const name = expectSync(def.keyType._zod.run({ value: key, issues: [] }, context));
      const result = expectSync(def.valueType._zod.run({ value: entries[key], issues: [] }, context));
      if (name.issues.length > 0 || result.issues.length > 0)
        // It describes what is wrong with a key.
        return parse({ value: { [key]: entries[key] }, issues: payload.issues }, context);
      read[name.value as string] = result.value;
    }
    payload.value = read;
    return payload;
  };
});

function expectSync(result: core.util.MaybeAsync<core.ParsePayload>): core.ParsePayload {
  if (result instanceof Promise) throw new core.$ZodAsyncError();
  return result;
}

export function array<Item extends core.SomeType>(element: Item): ZodArray<Item> {
  return new FirstFaultArray({ type: 'array', element: element as never }) as never;
}

export function record<Key extends core.$ZodRecordKey, Value extends core.SomeType>(
  keyType: Key,
  valueType: Value,
): ZodRecord<Key, Value> {
  return new FirstFaultRecord({ type: 'record', keyType, valueType: valueType as never }) as never;
}

export type Json = core.util.JSONType;

/** Of what JSON.parse returns; only 1e999 is more than JSON can hold. */
export function json(): ZodType<Json> {
  return custom<Json>(isJson, 'expected finite numbers');
}

function isJson(value: unknown): boolean {
  const waiting = [value];
  while (waiting.length > 0) {
    const next = waiting.pop();
    if (typeof next === 'number' && !Number.isFinite(next)) return false;
    if (typeof next === 'object' && next !== null)
      for (const inner of Object.values(next)) waiting.push(inner);
  }
  return true;
}

const maxShownLength = 120;

const clip = (text: string): string =>
  text.length > maxShownLength ? `${text.slice(0, maxShownLength)}...` : text;

/** The first fault: its place, such as "prompts.0.id" (empty for the whole value), and what was expected there. */
export function describeFault({ issues: [issue] }: ZodError): {
  readonly place: string;
  readonly fault: string;
} {
  if (issue === undefined) return { place: '', fault: 'unreadable' };
  const place = clip(issue.path.map(String).join('.'));
  if (issue.code !== 'unrecognized_keys') return { place, fault: issue.message };
  return { place, fault: `Unrecognized key: "${clip(issue.keys[0] ?? '')}"` };
}

/** The same in one phrase. */
export function phraseFault(error: ZodError): string {
  const { place, fault } = describeFault(error);
  return place === '' ? fault : `${place}: ${fault}`;
}

/** Like `schema.parse`, with a phrase as the message; zod's own message is JSON. */
export function readAs<Schema extends ZodType>(schema: Schema, value: unknown): output<Schema> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new Error(phraseFault(parsed.error), { cause: parsed.error });
}
