/**
 * Reads rotary settings: `rope_theta` and `rope_scaling` (transformers 4) or `rope_parameters` (version 5). Files
 * that the two versions read differently, or ignore in part, are refused: a wrong angle gives fluent but wrong text.
 */
import { isDeepStrictEqual } from 'node:util';
import { showValue } from '../../core/json-text.js';
import type { RotaryScaling } from './rotary-frequencies.js';
import type { RotaryFields, RotarySizes } from './rotary-scaling.js';
import { parseScaling, positiveOrNone, refuseRotary as refuse, rotarySchema } from './rotary-scaling.js';

export interface RotarySettings {
  readonly rotaryBase: number;
  readonly rotaryOrigin: string;
  readonly rotaryScaling: RotaryScaling;
}

const defaultBase = 10000;

export function parseRotary(
  config: Readonly<Record<string, unknown>>,
  place: string,
  sizes: RotarySizes,
): RotarySettings {
  const { key, settings } = chooseSettings(config, place);
  const parsed = rotarySchema.safeParse(settings);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    const path = [key, ...(issue?.path ?? [])].join('.');
    throw refuse(place, `has a bad "${path}": ${issue?.message ?? 'not readable'}`);
  }
  const fields = parsed.data;
  if ((fields.partial_rotary_factor ?? 1) !== 1) {
    throw refuse(
      place,
      `asks in ${key} to turn ${fields.partial_rotary_factor} of each head; the whole head was expected`,
    );
  }
  const kind = fields.rope_type ?? fields.type ?? undefined;
  if (kind === undefined) requireNothingElse(settings, key, place);
  return {
    ...parseBase(config, fields.rope_theta, key, place),
    rotaryScaling: parseScaling(kind ?? 'default', fields, {
      key,
      place,
      ...sizes,
      originalContext: parseOriginal(config, fields, place, sizes),
    }),
  };
}

interface ChosenSettings {
  readonly key: 'rope_scaling' | 'rope_parameters';
  readonly settings: Readonly<Record<string, unknown>>;
}

function chooseSettings(config: Readonly<Record<string, unknown>>, place: string): ChosenSettings {
  const older = readRecord(config, 'rope_scaling', place);
  const newer = readRecord(config, 'rope_parameters', place);
  if (older !== undefined && newer !== undefined && !isDeepStrictEqual(older, newer)) {
    throw refuse(place, 'has both rope_scaling and rope_parameters, and they differ; one was expected');
  }
  const key = newer === undefined ? 'rope_scaling' : 'rope_parameters';
  const settings = newer ?? older ?? {};
  const nested = Object.keys(settings).filter((name) => isRecord(settings[name]));
  if (nested.length > 0) {
    throw refuse(
      place,
      `gives each kind of layer rotary settings of its own (${key}: ${nested.join(', ')}), which is not supported`,
    );
  }
  return { key, settings };
}

/** An empty object counts as absent. */
function readRecord(
  config: Readonly<Record<string, unknown>>,
  key: string,
  place: string,
): Readonly<Record<string, unknown>> | undefined {
  const value = config[key];
  if (value === undefined || value === null) return undefined;
  if (!isRecord(value)) {
    throw refuse(place, `has a bad "${key}": ${showValue(value)}; an object was expected`);
  }
  return Object.keys(value).length === 0 ? undefined : value;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Version 4 fails without a kind, version 5 drops the scaling: neither is intended. */
function requireNothingElse(settings: Readonly<Record<string, unknown>>, key: string, place: string): void {
  const others = Object.keys(settings).filter(
    (name) => !['rope_theta', 'partial_rotary_factor', 'rope_type', 'type'].includes(name),
  );
  if (others.length === 0) return;
  throw refuse(place, `has ${others.join(', ')} in ${key} but no "rope_type" that says what they scale`);
}

function parseBase(
  config: Readonly<Record<string, unknown>>,
  inner: number | undefined,
  key: string,
  place: string,
): Pick<RotarySettings, 'rotaryBase' | 'rotaryOrigin'> {
  const parsed = positiveOrNone.safeParse(config.rope_theta);
  if (!parsed.success) {
    throw refuse(
      place,
      `has a bad "rope_theta": ${showValue(config.rope_theta)}; a positive number was expected`,
    );
  }
  const outer = parsed.data;
  if (outer !== undefined && inner !== undefined && outer !== inner) {
    throw refuse(
      place,
      `has the rotary base ${outer} as rope_theta and ${inner} in ${key}; one value was expected`,
    );
  }
  if (inner !== undefined) return { rotaryBase: inner, rotaryOrigin: `${key}.rope_theta of config.json` };
  if (outer !== undefined) return { rotaryBase: outer, rotaryOrigin: 'rope_theta of config.json' };
  return { rotaryBase: defaultBase, rotaryOrigin: `default ${defaultBase}` };
}

/** The original context; Phi-3 writes it next to the settings. */
function parseOriginal(
  config: Readonly<Record<string, unknown>>,
  { original_max_position_embeddings: inner }: RotaryFields,
  place: string,
  { positions }: RotarySizes,
): number {
  const parsed = positiveOrNone.safeParse(config.original_max_position_embeddings);
  const outer = parsed.success ? parsed.data : undefined;
  if (!parsed.success || (outer !== undefined && inner !== undefined && outer !== inner)) {
    const seen = showValue(config.original_max_position_embeddings);
    throw refuse(
      place,
      `has original_max_position_embeddings ${seen} beside ${inner ?? 'none'} in its rotary settings; one number was expected`,
    );
  }
  return outer ?? inner ?? positions;
}
