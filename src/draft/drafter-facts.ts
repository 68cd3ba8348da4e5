/** What the tensors of a drafter say about it and about the target it was made for. */
import type { Problem } from '../checkpoint/open-checkpoint.js';
import type { Checkpoint, StoredTensor } from '../checkpoint/stored-tensor.js';
import { flattenConfig } from './draft-configuration.js';
import type { DraftSystem } from './recognise.js';
import { unreadProblems } from './unread-tensors.js';

export interface DrafterFacts {
  /** Tokens it can draft ahead where the number is built in; absent for one that feeds on its own output. */
  readonly heads?: number | undefined;
  readonly hiddenSize?: number | undefined;
  /** Tokens it can propose. */
  readonly draftVocabularySize?: number | undefined;
  /** Of the layer that EAGLE heads have. */
  readonly rotary?: { readonly base: number; readonly origin: string } | undefined;
  /** What it brings beyond the tensors that all of its kind have, and what its config asks to be done. */
  readonly traits?: readonly string[] | undefined;
  readonly expects: ExpectedTarget;
}

export interface ExpectedTarget {
  readonly hiddenSize?: number | undefined;
  readonly vocabularySize?: number | undefined;
  /** Residual streams of the target that it reads. */
  readonly taps?: number | undefined;
  /** Which ones, in words. */
  readonly tapRule?: string | undefined;
}

export interface DrafterReading {
  readonly facts: DrafterFacts;
  readonly problems: readonly Problem[];
}

type HeadSystem = Exclude<DraftSystem, 'speculative-sampling'>;

export function readDrafterFacts(
  system: HeadSystem,
  checkpoint: Pick<Checkpoint, 'tensors' | 'config'>,
): DrafterReading {
  const flat = { ...checkpoint, config: flattenConfig(checkpoint.config) };
  const facts = readers[system](flat);
  return {
    facts,
    problems: [
      ...findMissingTensors(system, flat),
      ...findDisagreements(facts, flat),
      ...findUnknownTensors(system, flat),
    ],
  };
}

type Reader = (checkpoint: Pick<Checkpoint, 'tensors' | 'config'>) => DrafterFacts;

const readers: Readonly<Record<HeadSystem, Reader>> = {
  medusa: ({ tensors }) => readHeads(tensors, /^(?:medusa_heads?\.)?(?:lm_heads\.(\d+)|(\d+)\.\d+)\.weight$/),
  hydra: ({ tensors }) => readHeads(tensors, /^hydra_lm_head\.(\d+)(?:\.\d+)?\.weight$/),
  eagle({ tensors, config }) {
    const [hiddenSize] = shapeOf(tensors, 'fc.weight');
    const vocabularySize = shapeOf(tensors, 'embed_tokens.weight')[0] ?? sizeIn(config, 'vocab_size');
    return {
      hiddenSize,
      draftVocabularySize: vocabularySize,
      expects: { hiddenSize, vocabularySize },
    };
  },
  eagle3({ tensors, config }) {
    const [hiddenSize, fused = 0] = shapeOf(tensors, 'fc.weight');
    const [draftVocabularySize] = shapeOf(tensors, 'lm_head.weight');
    const targetHidden = sizeIn(config, 'target_hidden_size') ?? hiddenSize;
    const taps = targetHidden === undefined ? undefined : fused / targetHidden;
    return {
      hiddenSize,
      draftVocabularySize,
      expects: {
        hiddenSize: targetHidden,
        vocabularySize: shapeOf(tensors, 't2d')[0] ?? sizeIn(config, 'vocab_size'),
        taps: Number.isInteger(taps) ? taps : undefined,
      },
    };
  },
};

function readHeads(tensors: ReadonlyMap<string, StoredTensor>, output: RegExp): DrafterFacts {
  const heads = [...tensors.values()].flatMap(({ name, shape }) => {
    const match = output.exec(name);
    return match === null ? [] : [{ index: match[1] ?? match[2], shape }];
  });
  // A residual block is square; only the output layer is as tall as the vocabulary.
  const [vocabularySize, hiddenSize] = heads.reduce<readonly number[]>(
    (tallest, { shape }) => ((shape[0] ?? 0) > (tallest[0] ?? 0) ? shape : tallest),
    [],
  );
  return {
    heads: new Set(heads.map(({ index }) => index)).size,
    hiddenSize,
    draftVocabularySize: vocabularySize,
    expects: { hiddenSize, vocabularySize },
  };
}

const layerParts = [
  'self_attn.q_proj',
  'self_attn.k_proj',
  'self_attn.v_proj',
  'self_attn.o_proj',
  'mlp.gate_proj',
  'mlp.up_proj',
  'mlp.down_proj',
  'post_attention_layernorm',
];

type LayerSystem = 'eagle' | 'eagle3';

/** Names as published, `model.` in front of them or not. */
const required: Readonly<Record<LayerSystem, readonly string[]>> = {
  eagle: ['fc', ...layerParts.map((part) => `layers.0.${part}`)],
  eagle3: [
    'fc',
    ...[...layerParts, 'hidden_norm', 'input_layernorm'].map((part) => `midlayer.${part}`),
    'norm',
    'lm_head',
  ],
};

/** The part of a name that says whose head it belongs to, between what stands before and behind it. */
const headNames: Readonly<Record<Exclude<HeadSystem, LayerSystem>, RegExp>> = {
  medusa: /^((?:medusa_heads?\.)?(?:blocks\.|lm_heads\.)?)(\d+)(\..+)$/,
  hydra: /^(hydra_(?:mlp|lm_head)\.)(\d+)(\..+)$/,
};

/** Every name that a head of Medusa or Hydra can have; EAGLE's are told by eagle-parts.ts. */
const knownNames: Readonly<Record<Exclude<HeadSystem, LayerSystem>, RegExp>> = {
  medusa:
    /^(?:medusa_heads?\.)?(?:\d+\.\d+\.(?:linear\.)?|blocks\.\d+\.layers\.\d+\.|lm_heads\.\d+\.)(?:weight|bias)$/,
  hydra:
    /^(?:hydra_mlp\.\d+\.\d+\.(?:linear|res_connection)|hydra_lm_head\.\d+(?:\.\d+)?)\.(?:weight|bias)$|^prefix_embeding_layer\.(?:embed_tokens|norm|layers\.0\.)/,
};

function findUnknownTensors(
  system: HeadSystem,
  { tensors }: Pick<Checkpoint, 'tensors'>,
): readonly Problem[] {
  if (system === 'eagle' || system === 'eagle3') return [];
  const names = [...tensors.keys()];
  // Medusa-2 lies among the tensors of its target.
  const own = names.some((name) => name.startsWith('model.layers.'))
    ? names.filter((name) => name.startsWith('medusa_head'))
    : names;
  return unreadProblems(own.filter((name) => !knownNames[system].test(name)));
}

function findMissingTensors(
  system: HeadSystem,
  { tensors }: Pick<Checkpoint, 'tensors'>,
): readonly Problem[] {
  const missing =
    system === 'medusa' || system === 'hydra'
      ? listUneven([...tensors.keys()], headNames[system])
      : required[system]
          .map((name) => `${name}.weight`)
          .filter((name) => shapeOf(tensors, name).length === 0);
  return missing.map((name) => ({
    problem: `The drafter has no tensor ${name}.`,
    remedy: 'Download the drafter again, or export it with all of its layers.',
  }));
}

/** Heads are alike: what one of them has and another lacks is missing. */
function listUneven(names: readonly string[], pattern: RegExp): readonly string[] {
  const parts = new Map<string, readonly [before: string, behind: string]>();
  const heads = new Set<string>();
  for (const name of names) {
    const [, before, head, behind] = pattern.exec(name) ?? [];
    if (before === undefined || head === undefined || behind === undefined) continue;
    parts.set(`${before}*${behind}`, [before, behind]);
    heads.add(head);
  }
  const known = new Set(names);
  return (
    [...parts.values()]
      // As many as there are, from 0: the numbers themselves are a stranger's and may be huge.
      .flatMap(([before, behind]) =>
        Array.from({ length: heads.size }, (_, head) => `${before}${head}${behind}`),
      )
      .filter((name) => !known.has(name))
  );
}

/** config.json against the tensors: a drafter saved with another one's configuration. */
function findDisagreements(
  { hiddenSize, draftVocabularySize, expects }: DrafterFacts,
  { config, tensors }: Pick<Checkpoint, 'tensors' | 'config'>,
): readonly Problem[] {
  const pairs: readonly (readonly [string, number | undefined])[] = [
    ['hidden_size', hiddenSize],
    ['vocab_size', expects.vocabularySize],
    ['draft_vocab_size', draftVocabularySize],
  ];
  const problems = pairs.flatMap(([key, seen]): Problem[] => {
    const stated = sizeIn(config, key);
    if (stated === undefined || seen === undefined || stated === seen) return [];
    return [
      {
        problem: `config.json says ${key} ${stated}, but the tensors have ${seen}.`,
        remedy: 'Take config.json and the weights from the same drafter.',
      },
    ];
  });
  const isSmaller = draftVocabularySize !== undefined && draftVocabularySize < (expects.vocabularySize ?? 0);
  if (isSmaller && shapeOf(tensors, 'd2t').length === 0) {
    problems.push({
      problem: `The drafter proposes ${draftVocabularySize} of the target's ${expects.vocabularySize ?? 0} tokens, but has no d2t that says which.`,
      remedy: 'Use an export that keeps the buffers d2t and t2d.',
    });
  }
  return problems;
}

function shapeOf(tensors: ReadonlyMap<string, StoredTensor>, name: string): readonly number[] {
  const other = name.replace('midlayer.', 'layers.0.');
  const found = [name, `model.${name}`, other, `model.${other}`].find((candidate) => tensors.has(candidate));
  return found === undefined ? [] : tensors.get(found)!.shape;
}

function sizeIn(config: Readonly<Record<string, unknown>>, key: string): number | undefined {
  const value = config[key];
  return typeof value === 'number' && Number.isInteger(value) && value > 0 ? value : undefined;
}
