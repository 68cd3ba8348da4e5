/**
 * Asks an engine for telemetry that it reports only on request, and takes out of the response what the client did not
 * ask for. The operator's setting wins over the client's. Used only with askForTelemetry.
 */
import type { EngineAdapter } from '../engines/adapter.js';
import { askForUsage } from '../engines/adapter.js';
import type { JsonObject } from '../engines/claim.js';
import { asList, asObject } from '../engines/claim.js';
import { removeField, setField } from './json-edit.js';

export interface AskedRequest {
  readonly text: string;
  /** Undefined where the response stays as it is. */
  readonly strip: Strip | undefined;
}

/** What to take out of the response. */
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
): AskedRequest {
  const {
    fields,
    added,
    addsNullUsage = false,
  } = engine === undefined ? askForUsage : (engine.ask ?? noAsking);
  let changed = text;
  let dropsUsage = false;
  let addsFields = false;
  for (const [name, value] of Object.entries(fields(request))) {
    if (name === 'stream_options') {
      if (asObject(request.stream_options)?.include_usage === true) continue;
      // Replaced as a whole: options that only work together with the usage would change the chunks.
      dropsUsage = true;
    } else if (request[name] === value) continue;
    else addsFields = true;
    changed = setField(changed, name, JSON.stringify(value));
  }
  if (changed === text) return { text, strip: undefined };
  const dropsNullUsage = dropsUsage && addsNullUsage;
  return { text: changed, strip: { dropsUsage, dropsNullUsage, fields: addsFields ? added : [] } };
}

const noAsking: NonNullable<EngineAdapter['ask']> = { fields: () => ({}), added: [] };

/** The body of a response, or the data of one event; undefined where the event is left out. */
export function stripData(data: string, strip: Strip): string | undefined {
  const mayDrop = strip.dropsUsage && data.includes('"usage"');
  const mayEdit = strip.fields.some(([name]) => data.includes(name!));
  if (!mayDrop && !mayEdit) return data;
  const body = parse(data);
  if (body === undefined) return data;
  const isWithoutChoices = asList(body.choices)?.length === 0;
  const isOnlyAdded = mayEdit && isWithoutChoices && asObject(body.usage) === undefined;
  if (isOnlyAdded || (mayDrop && isWithoutChoices)) return undefined;
  let text = data;
  for (const path of strip.fields) text = removeField(text, path);
  return strip.dropsNullUsage && body.usage === null ? removeField(text, ['usage']) : text;
}

function parse(text: string): JsonObject | undefined {
  try {
    return asObject(JSON.parse(text));
  } catch {
    return undefined;
  }
}
