/**
 * What each engine shows of its drafts without generating anything, and the flag that makes it tell more. Flags are those of
 * the engines' own documents: vLLM tells of single requests since 0.29, SGLang and llama.cpp in every answer of their own
 * routes, TensorRT-LLM the accepted length alone, LMDeploy and TGI not at all.
 */
import type { EngineCounters } from './engine-counters.js';
import type { Probes } from './engine-probe.js';
import { modelsOf, serverInfoOf } from './engine-probe.js';
import type { Drafting, Telemetry } from './engine-report.js';
import { shownCount, shownText } from './engine-report.js';
import type { EngineName } from './request-record.js';
import { asList, asObject } from './speculation/reading.js';

export interface Seen {
  readonly probes: Probes;
  /** Undefined where the engine has no metrics to read. */
  readonly metricNames: ReadonlySet<string> | undefined;
  readonly counters: EngineCounters | undefined;
}

export interface Findings {
  readonly version: string | null;
  readonly drafting: Drafting;
  readonly perRequest: Telemetry;
  readonly aggregate: Telemetry;
  readonly notes: readonly string[];
}

const undrafted: Drafting = { isOn: null, method: null, drafter: null, draftLength: null, isTree: null };
const perRequestFlag = '--per-request-spec-decode-metrics summary';
const answerField = 'metrics.speculative_decoding of an answer';
const streamUsage =
  'In streams it comes with the usage: "stream_options": {"include_usage": true} in the request';
const fromStream = 'Mistletoe estimates it from streams: tokens of a chunk, gaps between chunks';

/** Counters that appear once something drafts, under a flag or without one. */
function countersTelemetry({ counters, metricNames }: Seen, remedy: string): Telemetry {
  if (counters !== undefined) return { state: 'on', text: 'counters in /metrics', remedy: null };
  return metricNames === undefined
    ? { state: 'off', text: 'it shows no metrics', remedy }
    : { state: 'off', text: 'its metrics count no drafts', remedy: null };
}

/** Their metrics have counters of drafts if, and only if, a drafter is configured. */
function draftingByCounters({ counters, metricNames }: Seen): Drafting {
  const isOn = counters !== undefined ? true : metricNames === undefined ? null : false;
  return { ...undrafted, isOn, draftLength: counters?.draftLength ?? null };
}

function examineVllm(seen: Seen): Findings {
  const version = shownText(seen.probes.get('/version')?.json?.version);
  const shown = shownText(
    readSetting(seen.probes, /per_request_spec_decode_metrics["']?\s*[=:]\s*["']?(\w+)/),
  );
  const isTold = shown === 'summary' || shown === 'detailed';
  const known = Number(/^0\.(\d+)/.exec(version ?? '')?.[1] ?? 29);
  return {
    version,
    drafting: { ...draftingByCounters(seen), ...readVllmConfiguration(seen.probes) },
    perRequest: isTold
      ? { state: 'on', text: answerField, remedy: null }
      : known < 29
        ? {
            state: 'off',
            text: `vLLM ${version ?? ''} does not tell it`,
            remedy: `vLLM 0.29 or later with ${perRequestFlag}`,
          }
        : { state: shown === 'none' ? 'off' : 'unseen', text: answerField, remedy: perRequestFlag },
    aggregate: countersTelemetry(seen, 'start it without --disable-log-stats'),
    notes: [`${streamUsage}, or --enable-force-include-usage for all.`],
  };
}

/** Of /server_info, which vLLM shows with VLLM_SERVER_DEV_MODE=1: as an object, or as text. */
function readVllmConfiguration(probes: Probes): Partial<Drafting> {
  const shown = asObject(asObject(serverInfoOf(probes)?.vllm_config)?.speculative_config);
  if (shown !== undefined)
    return {
      isOn: true,
      method: shownText(shown.method),
      drafter: shownText(shown.model),
      draftLength: shownCount(shown.num_speculative_tokens),
    };
  const method = readSetting(probes, /SpeculativeConfig\(method='([^']{1,200})'/);
  const length = readSetting(probes, /SpeculativeConfig\([^)]{0,400}num_spec_tokens=(\d{1,4})/);
  return method === null || length === null ? {} : { isOn: true, method, draftLength: Number(length) };
}

function readSetting(probes: Probes, pattern: RegExp): string | null {
  return pattern.exec(probes.get('/server_info')?.text ?? '')?.[1] ?? null;
}

function examineMistletoe(seen: Seen): Findings {
  const [model = {}] = modelsOf(seen.probes);
  const own = asObject(model.mistletoe) ?? {};
  const drafters = (asList(own.drafters) ?? []).flatMap((name) => shownText(name) ?? []);
  const header = seen.probes.get('/v1/models')?.engineHeader ?? '';
  return {
    version: shownText(header.split('/')[1]),
    drafting: {
      ...draftingByCounters(seen),
      isOn: drafters.length > 0 ? true : draftingByCounters(seen).isOn,
      method: shownText(own.draft),
      drafter: shownText(drafters.join(', ')),
    },
    perRequest: readMistletoeLevel(own.metrics),
    aggregate: countersTelemetry(seen, 'let /metrics through: something before the server hides it'),
    notes: [`${streamUsage}.`],
  };
}

/** One that does not say it is older than this. */
function readMistletoeLevel(level: unknown): Telemetry {
  if (level === 'summary' || level === 'detailed')
    return { state: 'on', text: `${answerField}, ${level}`, remedy: null };
  const asking = 'with "mistletoe": {"metrics": "summary"} in the request';
  return level === 'none'
    ? { state: 'asked', text: `${answerField}, ${asking}`, remedy: perRequestFlag }
    : { state: 'unseen', text: answerField, remedy: perRequestFlag };
}

function examineSglang(seen: Seen): Findings {
  const info = serverInfoOf(seen.probes);
  const algorithm = shownText(info?.speculative_algorithm);
  const width = shownCount(info?.speculative_eagle_topk);
  const isReadable = [...(seen.metricNames ?? [])].some((name) => name.startsWith('sglang:'));
  return {
    version: shownText(info?.version),
    drafting: {
      isOn: info === undefined ? (seen.counters === undefined ? null : true) : algorithm !== null,
      method: algorithm,
      drafter: shownText(info?.speculative_draft_model_path),
      draftLength: algorithm === null ? null : shownCount(info?.speculative_num_steps),
      isTree: algorithm === null || width === null ? null : width > 1,
    },
    perRequest: {
      state: 'asked',
      text: 'meta_info of /generate always; sglext.spec_tokens_details of OpenAI routes when asked',
      remedy: '"return_spec_tokens_details": true in the request',
    },
    aggregate: isReadable
      ? {
          state: 'on',
          text: 'gauges of the last moments in /metrics, and a counter of verifications',
          remedy: null,
        }
      : { state: 'off', text: 'it shows no metrics', remedy: '--enable-metrics' },
    notes: ['Its gauges show the last moments: a short collapse can fall between two scrapes.'],
  };
}

function examineTensorRtLlm(seen: Seen): Findings {
  const { counters } = seen;
  return {
    version: shownText(seen.probes.get('/version')?.json?.version),
    drafting: {
      ...undrafted,
      isOn: counters === undefined ? null : true,
      draftLength: counters?.draftLength ?? null,
    },
    perRequest: {
      state: 'on',
      text: 'avg_decoded_tokens_per_iter of every choice, which is the accepted length',
      remedy: null,
    },
    aggregate:
      counters === undefined
        ? { state: 'off', text: '/prometheus/metrics counts no drafts', remedy: '"return_perf_metrics: true" and "enable_iter_perf_stats: true" in the YAML of --extra_llm_api_options' } // prettier-ignore
        : { state: 'on', text: 'counters in /prometheus/metrics', remedy: null },
    notes: [
      'If acceptance_rate_threshold is set, one stretch of low acceptance switches speculation off for everybody until a restart.',
      '/metrics was not asked: reading it takes away what it shows.',
    ],
  };
}

function examineLlamaCpp(seen: Seen): Findings {
  const { probes, counters, metricNames } = seen;
  const slots = probes.get('/slots')?.text ?? '';
  const isSpeculative = /"speculative":\s*true/.test(slots);
  return {
    version: shownText(probes.get('/props')?.json?.build_info),
    // What /props says of speculation is not what runs; slots and counters are.
    drafting: {
      ...undrafted,
      isOn: isSpeculative || (counters?.drafts ?? 0) > 0 ? true : null,
      draftLength: counters?.draftLength ?? null,
    },
    perRequest: {
      state: 'on',
      text: 'timings of every answer (draft_n, draft_n_accepted); steps are not counted and follow from the tokens',
      remedy: null,
    },
    aggregate:
      metricNames === undefined
        ? { state: 'off', text: 'it shows no metrics', remedy: '--metrics' }
        : countersTelemetry(seen, '--metrics'),
    notes: ['"timings_per_token": true in a request shows it while a stream runs.'],
  };
}

function examineLmdeploy(seen: Seen): Findings {
  return {
    version: null,
    drafting: draftingByCounters(seen),
    perRequest: { state: 'never', text: fromStream, remedy: null },
    aggregate: countersTelemetry(seen, 'start it without --disable-metrics'),
    notes: [],
  };
}

function examineTgi(seen: Seen): Findings {
  const info = seen.probes.get('/info')?.json;
  const isOn = seen.counters === undefined ? null : true;
  return {
    version: shownText(info?.version),
    drafting: { ...undrafted, isOn, draftLength: shownCount(info?.speculate) },
    perRequest: { state: 'never', text: fromStream, remedy: null },
    aggregate:
      seen.counters === undefined
        ? { state: 'off', text: 'tgi_request_skipped_tokens is not in /metrics', remedy: '--speculate N' }
        : {
            state: 'on',
            text: 'the histogram tgi_request_skipped_tokens in /metrics, of steps',
            remedy: null,
          },
    notes: [],
  };
}

function examineUnknown(seen: Seen): Findings {
  return {
    version: shownText(seen.probes.get('/version')?.json?.version),
    drafting: undrafted,
    perRequest: { state: 'unseen', text: fromStream, remedy: null },
    aggregate: { state: 'unseen', text: 'no metrics of a known engine', remedy: null },
    notes: ['No engine is recognised: a gateway may stand before it. Give the address of the engine itself.'],
  };
}

export const examiners: Readonly<Record<EngineName, (seen: Seen) => Findings>> = {
  vllm: examineVllm,
  mistletoe: examineMistletoe,
  sglang: examineSglang,
  'tensorrt-llm': examineTensorRtLlm,
  'llama-cpp': examineLlamaCpp,
  lmdeploy: examineLmdeploy,
  tgi: examineTgi,
  unknown: examineUnknown,
};
