/** The guard's settings: one schema for the file and the flags, with all defaults. */
import * as z from '../core/schema.js';
import { formatBytes, parseBytes } from '../core/number-text.js';
import { adapterOf, engines } from './engines/engine-list.js';

export const guardActions = ['observe', 'shorter-drafts', 'plain-upstream', 'rate-limit'] as const;

const address = z
  .string()
  .refine((text) => /^https?:\/\/[^/?#@]+[^?#@]*$/i.test(text) && URL.canParse(text), {
    error: 'expected an address such as http://127.0.0.1:8000, without user, password or query',
  });

const timeUnits = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** In milliseconds; undefined where the text is not a time. Only 0 may have no unit. */
export function parseDuration(text: string): number | undefined {
  if (text.trim() === '0') return 0;
  const [, digits, unit] = /^\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)\s*$/.exec(text) ?? [];
  const value = Math.round(Number(digits) * timeUnits[unit as keyof typeof timeUnits]);
  return value <= 3650 * timeUnits.d ? value : undefined; // not for NaN either
}

/** 90_000 -> 90s */
export function formatDuration(milliseconds: number): string {
  if (milliseconds === 0) return '0';
  const units = Object.entries(timeUnits).reverse();
  const [name, factor] = units.find(([, each]) => milliseconds % each === 0) ?? ['ms', 1];
  return `${milliseconds / factor}${name}`;
}

const timeForm = 'expected a time with a unit, such as 500ms, 5s, 10m, 1h or 30d, or 0 for none';
const time = z
  .union([z.string(), z.literal(0)], { error: timeForm })
  .refine((text) => parseDuration(String(text)) !== undefined, { error: timeForm });
const duration = z.codec(time, z.number(), {
  decode: (text) => parseDuration(String(text))!,
  encode: formatDuration,
});

const sizeText = z
  .string()
  .refine((text) => parseBytes(text) !== undefined, { error: 'expected a size with a unit, such as 64MB' });
const size = z.codec(sizeText, z.number(), { decode: (text) => parseBytes(text)!, encode: formatSize });

/** In bytes where rounding to three digits would change it. */
function formatSize(bytes: number): string {
  const short = formatBytes(bytes).replace(' bytes', 'B').replace(' ', '');
  return parseBytes(short) === bytes ? short : `${bytes}B`;
}

/** Settings that all have defaults. */
const group = <Shape extends z.core.$ZodShape>(shape: Shape) => z.strictObject(shape).prefault({} as never);

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
  alert: group({
    falseAlerts: z.number().gt(0).max(0.5).default(0.01),
    falseAlertsPerWeek: z.number().gt(0).max(1e6).default(1),
  }),
  mitigation: group({
    action: z.enum(guardActions).default('observe'),
    forEveryone: z.enum(guardActions).default('observe'),
    /** Requests from one probe to the next, at first. */
    probeEvery: z.number().int().min(1).max(10_000).default(10),
    /** Good probes in a row that lift a measure. */
    probesToLift: z.number().int().min(1).max(1000).default(3),
    requestsPerMinute: z.number().int().min(1).max(1e6).default(6),
    draftLength: z.number().int().min(0).max(64).default(1),
  }),
  records: z
    .strictObject({
      folder: z.string().min(1).optional(),
      /** A larger or older segment is closed and the next one started; an age of 0 means no limit. */
      segmentSize: size.prefault('64MB'),
      segmentAge: duration.prefault('1d'),
      /** Of all segments together; the oldest are removed first. */
      retainSize: size.prefault('2GB'),
      retainAge: duration.prefault('30d'),
    })
    .refine(({ segmentSize, retainSize }) => segmentSize * 2 <= retainSize, {
      path: ['retainSize'],
      error: 'expected at least twice segmentSize',
    })
    .prefault({}),
  timeouts: group({
    connect: duration.prefault('5s'),
    /** From the end of the request to the response head: queueing and prefill. */
    firstByte: duration.prefault('10m'),
    /** Max silence of the engine within a response. */
    idle: duration.prefault('5m'),
    /** Max time in which the client reads nothing. */
    client: duration.prefault('5m'),
    /** Max time until a request has arrived with its body. */
    request: duration.prefault('5m'),
    shutdown: duration.prefault('30s'),
  }),
  limits: group({
    requestSize: size.prefault('64MB'),
    /** Larger bodies pass unread. */
    readSize: size.prefault('4MB'),
    /** All bodies held at one time; requests beyond it pass unread. */
    heldSize: size.prefault('256MB'),
    headerSize: size.prefault('32KB'),
  }),
  metrics: group({
    tenants: flag.default(false),
    /** Compares the engine's counters with the observed requests; 0 turns it off. */
    compareEvery: duration.prefault('15s'),
    /** Default: /metrics of the upstream. */
    url: address.optional(),
  }),
  otlp: group({
    /** Base address of an OTLP/HTTP receiver, such as http://127.0.0.1:4318; off where it is not set. */
    endpoint: address.optional(),
    requests: flag.default(false),
  }),
  operator: group({
    host: z.string().min(1).default('127.0.0.1'),
    port: z.number().int().min(0).max(65_535).default(8101),
    keyFile: z.string().min(1).optional(),
    hosts: z.array(z.string().min(1)).max(64).default([]),
  }),
  log: group({ requests: flag.default(false) }),
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
    if (action === 'shorter-drafts' && adapterOf(engine)?.limitDrafts === undefined)
      refuse('shorter-drafts needs engine: llama-cpp or mistletoe, which have a field for it');
  }
});

/** Times in milliseconds, sizes in bytes. */
export type GuardConfiguration = z.infer<typeof guardSchema>;
export type GivenConfiguration = z.input<typeof guardSchema>;
