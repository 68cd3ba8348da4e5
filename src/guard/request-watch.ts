/**
 * One request on its way through the guard: its answer is read as it passes, steps are tested as they come, and at its end
 * there is one record. Reading comes after passing on, and a fault of reading is counted and costs nothing else.
 */
import type { IncomingMessage } from 'node:http';
import type { Alarm } from './alarm.js';
import type { ExchangeEnding, Watcher } from './exchange-route.js';
import type { Monitor, Watch } from './monitor.js';
import type { Verdict } from './page-state.js';
import type { RecentMap } from './recent-map.js';
import type { RequestFacts } from './request-reader.js';
import type { EngineName, Evidence, RequestRecord } from './request-record.js';
import { engineNames } from './request-record.js';
import type { ReadResponse, ResponseReader } from './response-reader.js';
import { createResponseReader } from './response-reader.js';

/**
 * How an engine has told of its steps in earlier answers of a stream, by which the steps of the next are read while they
 * come: from its own running counts, from the tokens of chunks, or not before the end.
 */
export interface Habit {
  readonly evidence: Evidence;
  readonly steps: 'told' | 'chunks' | 'at-the-end';
}

export interface EndedRequest {
  readonly record: RequestRecord;
  readonly verdict: Verdict;
  readonly alarms: readonly Alarm[];
}

export interface WatchOptions {
  readonly id: string;
  readonly facts: RequestFacts;
  readonly tenant: string;
  readonly upstream: 'speculative' | 'plain';
  readonly engine: EngineName | undefined;
  readonly monitor: Monitor;
  readonly habits: RecentMap<Habit>;
  readonly onAlarm: (alarm: Alarm) => void;
  readonly onEnd: (ended: EndedRequest) => void;
  readonly onFault: (cause: unknown) => void;
  /** Always the last. */
  readonly onClose: () => void;
}

export class RequestWatch implements Watcher {
  private readonly beganAt = performance.now();
  private firstByteMs: number | null = null;
  private reader: ResponseReader | undefined;
  private watch: Watch | undefined;
  private habit: Habit | undefined;
  private isStream: boolean;
  private chunks = 0;
  private told = 0;

  constructor(private readonly options: WatchOptions) {
    this.isStream = options.facts.isStream;
  }

  onStart(response: IncomingMessage): void {
    this.firstByteMs = performance.now() - this.beganAt;
    this.guarded(() => {
      const { headers, statusCode = 0 } = response;
      const contentType = headers['content-type'] ?? '';
      this.isStream = contentType.startsWith('text/event-stream');
      if (statusCode < 200 || statusCode >= 300) return;
      const named = engineNames.find((name) => name === headers['x-mistletoe-engine']);
      this.reader = createResponseReader(contentType, {
        contentEncoding: headers['content-encoding'],
        engine: named ?? this.options.engine,
      });
      const { facts, upstream, habits, monitor, tenant, id } = this.options;
      if (upstream === 'plain' || !this.isStream) return;
      const stream = { model: facts.model ?? unknownModel, route: facts.route };
      this.habit = habits.get(habitKey(stream));
      if (this.habit === undefined || this.habit.steps === 'at-the-end') return;
      const { evidence } = this.habit;
      this.watch = monitor.begin(stream, tenant, id, { evidence, promptPrint: facts.promptPrint });
    });
  }

  onBytes(bytes: Buffer): void {
    const { reader } = this;
    if (reader === undefined) return;
    this.guarded(() => {
      const atMs = Date.now();
      for (const { told, tokens } of reader.push(bytes, atMs)) {
        if (told !== null) this.told++;
        // The first chunk comes from the prompt's own pass and is no step.
        const isFirst = this.chunks++ === 0;
        if (this.watch === undefined) continue;
        if (this.habit?.steps === 'told') {
          if (told?.steps === 1) this.step(told.accepted, told.proposed, atMs);
        } else if (!isFirst && tokens !== null && tokens > 0) {
          this.step(tokens - 1, null, atMs);
        }
      }
    });
  }

  onEnd(ending: ExchangeEnding, status: number): void {
    this.guarded(() => {
      const read = this.reader?.finish();
      const record = this.record(ending, status, read);
      const { habits, onEnd } = this.options;
      const { alarms, verdict } = this.judge(record);
      if (read !== undefined && record.upstream === 'speculative' && this.isStream) {
        const habit = this.habitOf(read);
        if (habit !== undefined) habits.set(habitKey(record), habit);
      }
      onEnd({ record, verdict, alarms });
    });
    this.options.onClose();
  }

  private judge(record: RequestRecord): { alarms: readonly Alarm[]; verdict: Verdict } {
    const { monitor } = this.options;
    // What was refused or failed says nothing about drafts.
    const isAnswer = record.status >= 200 && record.status < 300 && record.ending !== 'refused';
    if (!isAnswer) return { alarms: [], verdict: 'unknown' };
    return this.watch === undefined ? monitor.observe(record) : this.watch.finish(record);
  }

  private step(accepted: number, proposed: number | null, atMs: number): void {
    const alarm = this.watch?.step(accepted, proposed, atMs);
    if (alarm !== undefined) this.options.onAlarm(alarm);
  }

  private habitOf({ speculation, estimate }: ReadResponse): Habit | undefined {
    if (speculation !== null) {
      return { evidence: speculation.evidence, steps: this.told > 1 ? 'told' : 'at-the-end' };
    }
    if (estimate === null) return undefined;
    const isByChunk = estimate.unit === 'chunk' && estimate.detail === 'steps';
    return { evidence: 'estimated', steps: isByChunk ? 'chunks' : 'at-the-end' };
  }

  private record(ending: ExchangeEnding, status: number, read: ReadResponse | undefined): RequestRecord {
    const { id, facts, tenant, upstream, engine } = this.options;
    return {
      id,
      // As the request names it, so that measures meet the next one that does.
      model: facts.model ?? read?.model ?? unknownModel,
      route: facts.route,
      endedMs: Date.now(),
      engine: read?.engine ?? engine ?? 'unknown',
      ...{ tenant, status, ending, upstream, isStream: this.isStream },
      promptTokens: read?.usage.promptTokens ?? null,
      completionTokens: read?.usage.completionTokens ?? null,
      firstByteMs: this.firstByteMs === null ? null : round(this.firstByteMs),
      totalMs: round(performance.now() - this.beganAt),
      speculation: read?.speculation ?? read?.estimate?.speculation ?? null,
      promptPrint: facts.promptPrint,
      ...(read?.promptTail ? { promptTail: read.promptTail } : {}),
    };
  }

  private guarded(work: () => void): void {
    try {
      work();
    } catch (cause) {
      this.reader = undefined;
      this.watch = undefined;
      this.options.onFault(cause);
    }
  }
}

const unknownModel = 'unknown';
const habitKey = ({ model, route }: { readonly model: string; readonly route: string }): string =>
  `${model}\n${route}`;
const round = (milliseconds: number): number => Math.round(milliseconds * 100) / 100;
