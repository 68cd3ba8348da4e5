/**
 * The layers whose inputs an EAGLE-3 head taps; default 2, L/2 and L - 3. A list of ids means inputs or outputs of
 * these layers, depending on its writer (as read in vLLM 0.27.1, SGLang 0.5.18, SpecForge a6b6b02, ModelOpt a2fbac7,
 * llama.cpp b21e4de and AngelSlim 67394ce):
 * inputs: the speculators format (vLLM: transformers_utils/configs/speculators/algos.py)
 * inputs: a list outside eagle_config, or eagle_config.layer_ids, which only vLLM and llama.cpp read, as boundaries
 * between layers (v1/worker/gpu_model_runner.py, models/llama.py; conversion/llama.py)
 * outputs: a list in eagle_config with the architecture LlamaForCausalLMEagle3. SGLang adds 1 (srt/models/llama.py),
 * SpecForge captures through SGLang, ModelOpt hooks outputs (torch/speculative/plugins/hf_eagle.py)
 * outputs: aux_hidden_states_layer_ids (AngelSlim: models/target/target_model_wrapper.py)
 * unknown: everything else, and lists that disagree
 * An id equal to the number of layers must be an input: NVIDIA's gpt-oss-120b-Eagle3-v3 lists [24, 30, 36] for 36
 * layers. Such a list counts as unknown. The order of a list does not matter.
 */
import * as z from '../../core/schema.js';
import type { Checkpoint } from '../../checkpoint/stored-tensor.js';
import type { MistletoeError } from '../../core/errors.js';
import { showValue } from '../../core/json-text.js';
import { misfit, type Reading } from '../reading/checks.js';
import { isSpeculatorsFormat, type Config } from '../reading/draft-configuration.js';
import type { TapConvention } from '../draft-system.js';

interface Meaning {
  /** Undefined if the file does not say. */
  readonly convention: TapConvention | undefined;
  readonly reason: string;
}

export interface TapRule extends Meaning {
  /** Undefined for the default of three. */
  readonly listed: readonly number[] | undefined;
}

type Head = Pick<Checkpoint, 'config' | 'folder'>;

export function readTapRule({ config, folder }: Head): TapRule {
  const [first, ...others] = findLists(config).map((list) => parseList(list, folder));
  if (first === undefined)
    return { listed: undefined, convention: 'inputs', reason: 'config.json lists no layers' };
  const taps = tapsOf(first)?.join();
  if (others.every((other) => taps !== undefined && tapsOf(other)?.join() === taps)) return first;
  return { ...first, convention: undefined, reason: 'config.json has several lists of layers that disagree' };
}

interface FoundList extends Meaning {
  readonly list: unknown;
}

const key = 'eagle_aux_hidden_state_layer_ids';
const shortKey = 'aux_hidden_state_layer_ids';
const angelSlimKey = 'aux_hidden_states_layer_ids';
const listKeys: readonly string[] = [key, shortKey, angelSlimKey, 'layer_ids'];
const sglangArchitecture = 'LlamaForCausalLMEagle3';

function findLists(config: Config): readonly FoundList[] {
  const nested = z.record(z.string(), z.unknown()).safeParse(config.eagle_config).data ?? {};
  const onlyVllm = 'only vLLM and llama.cpp read a list there';
  const isSpeculators = isSpeculatorsFormat(config);
  const inputs = (reason: string): Meaning => ({ convention: 'inputs', reason });
  const top = inputs(isSpeculators ? 'the file is in the speculators format' : onlyVllm);
  const found: readonly FoundList[] = [
    { list: nested[key], ...judgeNested(config) },
    { list: config[key], ...top },
    { list: nested.layer_ids, ...inputs('eagle_config.layer_ids is a key of vLLM') },
    { list: config[angelSlimKey], convention: 'outputs', reason: `${angelSlimKey} is a key of AngelSlim` },
    {
      list: nested[shortKey] ?? config[shortKey],
      ...(isSpeculators ? top : { convention: undefined, reason: `no known trainer writes ${shortKey}` }),
    },
  ];
  return found.filter(({ list }) => list !== undefined && list !== null);
}

function judgeNested({ architectures }: Config): Meaning {
  const names: readonly unknown[] = Array.isArray(architectures) ? architectures : [];
  if (names.includes(sglangArchitecture)) {
    const reason = `SpecForge, SGLang and ModelOpt put the list of ${sglangArchitecture} into eagle_config`;
    return { convention: 'outputs', reason };
  }
  const seen = names.length === 0 ? 'no architecture' : `the architecture ${showValue(names[0])}`;
  return {
    convention: undefined,
    reason: `engines disagree on a list in eagle_config, and ${seen} does not tell who wrote it`,
  };
}

const maxTaps = 256;
const idsSchema = z.array(z.number().int().nonnegative()).min(1).max(maxTaps);

function parseList({ list, ...meaning }: FoundList, folder: string): TapRule & { listed: readonly number[] } {
  const parsed = idsSchema.safeParse(list);
  if (parsed.success) return { listed: parsed.data, ...meaning };
  throw badTaps(folder, list, `1 to ${maxTaps} whole numbers from 0 were expected`);
}

function tapsOf({ listed, convention }: Omit<TapRule, 'reason'>): readonly number[] | undefined {
  if (listed === undefined || convention === undefined) return undefined;
  const taps = listed.map((layer) => (convention === 'outputs' ? layer + 1 : layer));
  return [...new Set(taps)].sort((one, other) => one - other);
}

/** `given` takes precedence over the file; a notice says if it contradicts it. */
export function readTaps(
  head: Head,
  layerCount: number,
  given?: TapConvention,
): { readonly taps: readonly number[]; readonly notice?: string | undefined } {
  const { folder } = head;
  const { listed, convention, reason } = readTapRule(head);
  if (listed === undefined) {
    const usual = [2, Math.floor(layerCount / 2), layerCount - 3];
    if (layerCount >= 3) return { taps: usual };
    throw badTaps(folder, usual, range(layerCount));
  }
  const isBeyond = convention === 'outputs' && listed.includes(layerCount);
  const settled = given ?? (isBeyond ? undefined : convention);
  const taps = tapsOf({ listed, convention: settled });
  if (taps === undefined)
    throw misfit(
      folder,
      ...describeUnknown(
        listed,
        isBeyond ? `a target of ${layerCount} layers has no output ${layerCount}` : reason,
      ),
    );
  if (taps.some((layer) => layer > layerCount)) throw badTaps(folder, listed, range(layerCount));
  if (given === undefined || convention === undefined || isBeyond || given === convention) return { taps };
  const notice = `The taps ${showValue(listed)} of ${folder} are read as ${given} of layers because --taps says so; the file means ${convention}: ${reason}.`;
  return { taps, notice };
}

/** config.json with an unambiguous list. */
export function spellTaps(head: Head, given: TapConvention): Config {
  const { listed, convention } = readTapRule(head);
  if (listed === undefined || convention === given) return head.config;
  const nested = z.record(z.string(), z.unknown()).safeParse(head.config.eagle_config).data ?? {};
  const isKept = ([name]: [string, unknown]): boolean => !listKeys.includes(name);
  const config = Object.fromEntries(Object.entries(head.config).filter(isKept));
  const eagle = Object.fromEntries(Object.entries(nested).filter(isKept));
  return given === 'inputs'
    ? { ...config, eagle_config: eagle, [key]: listed }
    : { ...config, architectures: [sglangArchitecture], eagle_config: { ...eagle, [key]: listed } };
}

export function describeTapRule({ listed, convention, reason }: TapRule, given?: TapConvention): string {
  if (listed === undefined) return 'the default: before layers 2, L/2 and L - 3';
  const settled = given ?? convention;
  if (settled === undefined)
    return `${listed.join(', ')}: inputs or outputs of these layers, which is not known because ${reason}`;
  const why = given === undefined || given === convention ? reason : '--taps says so';
  return `${listed.join(', ')}: ${settled} of these layers, because ${why}`;
}

const describeUnknown = (listed: readonly number[], reason: string): [fault: string, hint: string] => [
  `lists the taps ${showValue(listed)}, and whether they are inputs or outputs of layers is not known: ${reason}`,
  'Pass --taps outputs (taps: "outputs" in the library) if it was trained with SpecForge, SGLang or ModelOpt, --taps inputs if it was trained for vLLM.',
];

/** Rejects a list whose meaning is unknown. */
export function describeTaps(reading: Reading, given: TapConvention | undefined): string | undefined {
  return reading.attempt(() => {
    const rule = readTapRule(reading);
    const { listed, convention, reason } = rule;
    if (listed !== undefined && convention === undefined && given === undefined)
      reading.reject(...describeUnknown(listed, reason));
    return describeTapRule(rule, given);
  });
}

const range = (layerCount: number): string => `layers from 0 to ${layerCount} were expected`;

function badTaps(folder: string, given: unknown, expected: string): MistletoeError {
  return misfit(
    folder,
    `asks for the taps ${showValue(given)}; ${expected}`,
    'It was trained for a deeper target.',
  );
}
