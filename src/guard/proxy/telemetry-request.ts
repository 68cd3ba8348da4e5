/**
 * Asks an engine for telemetry that it reports only on request, and takes out of the response what the client did not
 * ask for. The operator's setting wins over the client's. Used only with askForTelemetry.
 */
import { type EngineAdapter, askForUsage } from '../engines/adapter.js';
import { type JsonObject, asList, asObject, parseJson } from '../engines/claim.js';
import { removeField, setField } from './json-edit.js';
import { type StreamEvent, EventStream } from './response-reader.js';

export interface Strip {
  /** The last chunk of a stream, which has the usage and no choices. */
  readonly dropsUsage: boolean;
  /** `"usage": null` of all other chunks. */
  readonly dropsNullUsage: boolean;
  readonly fields: readonly (readonly string[])[];
}

export function askForTelemetry(
  engine: EngineAdapter | undefined,
  text: string,
  request: JsonObject,
): { readonly text: string; readonly strip: Strip | undefined } {
  const ask = engine === undefined ? askForUsage : engine.ask;
  let changed = text;
  let dropsUsage = false;
  let addsFields = false;
  for (const [name, value] of Object.entries(ask?.fields(request) ?? {})) {
    if (name === 'stream_options') {
      if (asObject(request.stream_options)?.include_usage === true) continue;
      // Replaced as a whole: options that only work together with the usage would change the chunks.
      dropsUsage = true;
    } else if (request[name] === value) continue;
    else addsFields = true;
    changed = setField(changed, name, JSON.stringify(value));
  }
  if (ask === undefined || changed === text) return { text, strip: undefined };
  const dropsNullUsage = dropsUsage && ask.addsNullUsage === true;
  return { text: changed, strip: { dropsUsage, dropsNullUsage, fields: addsFields ? ask.added : [] } };
}

/**
 * Bytes are handled as Latin-1 text: everything that is looked for is ASCII, and all other bytes pass unchanged, whatever
 * their encoding.
 */
export interface ResponseStrip {
  /** The response is held until it is complete, or until it is too long to be changed and passes as it is. */
  isWhole: boolean;
  push(bytes: Buffer): Buffer;
  finish(): Buffer;
}

const maxBody = 8 << 20;
/** An event with one line of data, and nothing else. */
const onlyData = /^(data: ?)(.*?)([\r\n]+)$/;

/** Undefined where the response has nothing to take out. */
export function createResponseStrip(strip: Strip, contentType: string): ResponseStrip | undefined {
  if (contentType.startsWith('text/event-stream')) return stripEvents(strip);
  if (strip.fields.length === 0 || !contentType.startsWith('application/json')) return undefined;
  let held = '';
  return {
    isWhole: true,
    push(bytes) {
      held += bytes.toString('latin1');
      if (this.isWhole && held.length <= maxBody) return Buffer.alloc(0);
      this.isWhole = false;
      return this.finish();
    },
    finish() {
      const passed = Buffer.from(this.isWhole ? (stripData(held, strip) ?? held) : held, 'latin1');
      held = '';
      return passed;
    },
  };
}

function stripEvents(strip: Strip): ResponseStrip {
  const stream = new EventStream();
  const pass = (events: readonly StreamEvent[]): Buffer => {
    const passed = events.map(({ text, isWhole }) => (isWhole ? stripEvent(text, strip) : text));
    return Buffer.from(passed.join(''), 'latin1');
  };
  return {
    isWhole: false,
    push: (bytes) => pass(stream.push(bytes)),
    finish: () => pass(stream.finish()),
  };
}

function stripEvent(event: string, strip: Strip): string {
  const [, field, data, ending] = onlyData.exec(event) ?? [];
  if (data === undefined) return event;
  const stripped = stripData(data, strip);
  return stripped === undefined ? '' : `${field}${stripped}${ending}`;
}

/** The body of a response, or the data of one event; undefined where the event is left out. */
function stripData(data: string, strip: Strip): string | undefined {
  const mayDrop = strip.dropsUsage && data.includes('"usage"');
  const mayEdit = strip.fields.some(([name]) => data.includes(name!));
  const body = mayDrop || mayEdit ? asObject(parseJson(data)) : undefined;
  if (body === undefined) return data;
  const isWithoutChoices = asList(body.choices)?.length === 0;
  const isOnlyAdded = mayEdit && isWithoutChoices && asObject(body.usage) === undefined;
  if (isOnlyAdded || (mayDrop && isWithoutChoices)) return undefined;
  const text = strip.fields.reduce(removeField, data);
  return strip.dropsNullUsage && body.usage === null ? removeField(text, ['usage']) : text;
}
