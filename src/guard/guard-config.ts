/** The guard's settings: one schema for the file and the flags, with all defaults. */
import { z } from 'zod';
import { formatBytes, parseBytes } from '../core/byte-size.js';
import { formatDuration, parseDuration } from './duration.js';
import { adapterOf, engines } from './engines/engine-list.js';
import { actionNames } from './observation.js';

/** Only our own server can switch drafters. */
export const guardActions = ['observe', ...actionNames.filter((name) => name !== 'switch-drafter')] as const;

const address = z
  .string()
  .refine((text) => /^https?:\/\/[^/?#@]+[^?#@]*$/i.test(text) && URL.canParse(text), {
    error: 'expected an address such as http://127.0.0.1:8000, without user, password or query',
  });

const timeForm = 'expected a time with a unit, such as 500ms, 5s, 10m, 1h or 30d, or 0 for none';
const duration = z
  .union([z.string(), z.literal(0)], { error: timeForm })
  .refine((time) => parseDuration(String(time)) !== undefined, { error: timeForm })
  .transform((time) => parseDuration(String(time))!);

const size = z
  .string()
  .refine((text) => parseBytes(text) !== undefined, { error: 'expected a size with a unit, such as 64MB' })
  .transform((text) => parseBytes(text)!);

const fieldName = z.string().regex(/^[\w!#$%&'*+.^`|~-]{1,64}$/, { error: 'expected a header name' });
const flag = z.boolean();

const settings = z.strictObject({
  upstream: address,
  plainUpstream: address.optional(),
  host: z.string().min(1).default('127.0.0.1'),
  port: z.number().int().min(0).max(65_535).default(8100),
  engine: z.enum(engines.map(({ name }) => name)).optional(),
  model: z.string().min(1).max(256).optional(),
  /** The key with which the guard itself reads the engine's list of models and metrics. */
  upstreamKeyFile: z.string().min(1).optional(),
  askForTelemetry: flag.default(false),
  /** Tokens per step from which drafting pays; estimated where it is not set. */
  breakEven: z.number().gt(1).max(100).optional(),
  /** Shares the judge's state between guards. */
  state: z
    .string()
    .regex(/^(?:rediss?|valkeys?):\/\/\S+$/, { error: 'expected redis://HOST:PORT or valkey://HOST:PORT' })
    .optional(),
  tenant: z
    .strictObject({
      from: z.enum(['all', 'key', 'header']).default('all'),
      header: fieldName.optional(),
      rejectSeveral: flag.default(false),
      limit: z.number().int().min(1).max(100_000).default(1000),
    })
    .refine(({ from, header }) => (from === 'header') === (header !== undefined), {
      path: ['header'],
      error: 'required with tenant.from: header, and only there',
    })
    .prefault({}),
  alert: z
    .strictObject({
      falseAlerts: z.number().gt(0).max(0.5).default(0.01),
      falseAlertsPerWeek: z.number().gt(0).max(1e6).default(1),
    })
    .prefault({}),
  mitigation: z
    .strictObject({
      action: z.enum(guardActions).default('observe'),
      forEveryone: z.enum(guardActions).default('observe'),
      probeEvery: z.number().int().min(1).max(10_000).default(10),
      probesToLift: z.number().int().min(1).max(1000).default(3),
      requestsPerMinute: z.number().int().min(1).max(1e6).default(6),
      draftLength: z.number().int().min(0).max(64).default(1),
    })
    .prefault({}),
  records: z
    .strictObject({
      folder: z.string().min(1).optional(),
      segmentSize: size.prefault('64MB'),
      segmentAge: duration.prefault('1d'),
      retainSize: size.prefault('2GB'),
      retainAge: duration.prefault('30d'),
    })
    .refine(({ segmentSize, retainSize }) => segmentSize * 2 <= retainSize, {
      path: ['retainSize'],
      error: 'expected at least twice segmentSize',
    })
    .prefault({}),
  timeouts: z
    .strictObject({
      connect: duration.prefault('5s'),
      firstByte: duration.prefault('10m'),
      idle: duration.prefault('5m'),
      client: duration.prefault('5m'),
      request: duration.prefault('5m'),
      shutdown: duration.prefault('30s'),
    })
    .prefault({}),
  limits: z
    .strictObject({
      requestSize: size.prefault('64MB'),
      readSize: size.prefault('4MB'),
      heldSize: size.prefault('256MB'),
      headerSize: size.prefault('32KB'),
    })
    .prefault({}),
  metrics: z
    .strictObject({
      tenants: flag.default(false),
      /** Compares the engine's counters with the observed requests; 0 turns it off. */
      compareEvery: duration.prefault('15s'),
      /** Default: /metrics of the upstream. */
      url: address.optional(),
    })
    .prefault({}),
  otlp: z
    .strictObject({
      /** Base address of an OTLP/HTTP receiver, such as http://127.0.0.1:4318; off where it is not set. */
      endpoint: address.optional(),
      requests: flag.default(false),
    })
    .prefault({}),
  operator: z
    .strictObject({
      host: z.string().min(1).default('127.0.0.1'),
      port: z.number().int().min(0).max(65_535).default(8101),
      keyFile: z.string().min(1).optional(),
      hosts: z.array(z.string().min(1)).max(64).default([]),
    })
    .prefault({}),
  log: z.strictObject({ requests: flag.default(false) }).prefault({}),
});

/** Settings that cannot take effect are rejected: an action that is never taken protects nobody. */
export const guardSchema = settings.superRefine((given, context) => {
  const { mitigation, plainUpstream, engine } = given;
  for (const name of ['action', 'forEveryone'] as const) {
    const action = mitigation[name];
    const refuse = (message: string): void => {
      context.addIssue({ code: 'custom', path: ['mitigation', name], message });
    };
    if (action === 'plain-upstream' && plainUpstream === undefined)
      refuse('plain-upstream needs plainUpstream');
    if (action === 'shorter-drafts' && adapterOf(engine ?? 'unknown')?.limitDrafts === undefined)
      refuse('shorter-drafts needs engine: llama-cpp or mistletoe, which have a field for it');
  }
});

/** Times in milliseconds, sizes in bytes. */
export type GuardConfiguration = z.infer<typeof guardSchema>;
export type GivenConfiguration = z.input<typeof guardSchema>;

/** In the format of a file, for --show-config. */
export function showConfiguration(configuration: GuardConfiguration): GivenConfiguration {
  const { records, timeouts, limits, metrics } = configuration;
  const times = (values: Readonly<Record<string, number>>): Record<string, string> =>
    Object.fromEntries(Object.entries(values).map(([name, value]) => [name, formatDuration(value)]));
  const sizes = (values: Readonly<Record<string, number>>): Record<string, string> =>
    Object.fromEntries(Object.entries(values).map(([name, value]) => [name, showSize(value)]));
  const { folder, segmentSize, segmentAge, retainSize, retainAge } = records;
  return {
    ...configuration,
    records: {
      ...(folder === undefined ? {} : { folder }),
      ...sizes({ segmentSize, retainSize }),
      ...times({ segmentAge, retainAge }),
    },
    timeouts: times(timeouts),
    metrics: { ...metrics, compareEvery: formatDuration(metrics.compareEvery) },
    limits: sizes(limits),
  };
}

/** In bytes where rounding to three digits would change it. */
function showSize(bytes: number): string {
  const short = formatBytes(bytes).replace(' bytes', 'B').replace(' ', '');
  return parseBytes(short) === bytes ? short : `${bytes}B`;
}
