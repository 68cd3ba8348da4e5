/**
 * Reports what a model folder is and whether it can be used. Nothing in the folder makes this throw: problems are
 * listed with remedies. Only headers of weights are read.
 */
import { stat } from 'node:fs/promises';
import { basename, resolve } from 'node:path';
import { listFolder, readConfig } from '../checkpoint/checkpoint-folder.js';
import { findProblems, openCheckpoint, type Problem } from '../checkpoint/open-checkpoint.js';
import { countElements, type Checkpoint, type StoredDType } from '../checkpoint/stored-tensor.js';
import { MistletoeError } from '../core/errors.js';
import { pushAll } from '../core/vector.js';
import { parseConfiguration, type ModelConfiguration } from '../model/configuration.js';
import { countPositionBytes } from '../model/cache/cache-pool.js';
import { decoderRecipes } from '../model/weights.js';
import { loadChatTemplate, renderChat } from '../text/template/chat-template.js';
import { openTokenizer } from '../text/tokenizer/tokenizer.js';
import { readTokenizerConfig } from '../text/tokenizer/tokenizer-config.js';
import { hasTokenizer, readTokenizerFile } from '../text/tokenizer/tokenizer-file.js';
import { draftModel } from './draft-model/draft-model.js';
import { compareWithTarget, describeSharing } from './draft-model/vocabulary-match.js';
import type { DrafterFacts, DraftSystem, ReadingOptions } from './draft-system.js';
import { readDecoderTensors, readDrafter, toProblem } from './reading/drafter-reading.js';
import { recogniseCheckpoint } from './systems.js';

export interface Inspection {
  readonly folder: string;
  /**
   * A drafting system's name; `decoder` for a language model, `unknown` for an unknown layout, `unreadable` if the
   * weights cannot be opened.
   */
  readonly kind: string;
  readonly layout: string;
  readonly model?: ModelConfiguration | undefined;
  readonly drafter?: DrafterFacts | undefined;
  readonly weights?: WeightFacts | undefined;
  readonly memory?: MemoryFacts | undefined;
  readonly tokenizer?: TokenizerFacts | undefined;
  readonly chatTemplate?: { readonly origin: string; readonly sample: string } | undefined;
  readonly notes: readonly string[];
  readonly problems: readonly Problem[];
}

export interface WeightFacts {
  readonly files: readonly string[];
  readonly sizeBytes: number;
  readonly tensorCount: number;
  readonly parameterCount: number;
  readonly dtypes: Readonly<Partial<Record<StoredDType, number>>>;
}

export interface MemoryFacts {
  readonly weightBytes: number;
  readonly cacheBytesPerThousandTokens: number;
}

export interface TokenizerFacts {
  readonly kind: string;
  readonly vocabularySize: number;
  readonly specialTokens: readonly string[];
}

export interface InspectionOptions extends ReadingOptions {
  /** Folder of the target that it would draft for: it has to fit, and vocabularies are compared. */
  readonly target?: string | undefined;
}

/**
 * @example
 * const { kind, problems } = await inspectCheckpoint('models/reference/eagle3'); // 'eagle3', []
 */
export async function inspectCheckpoint(
  folder: string,
  options: InspectionOptions = {},
): Promise<Inspection> {
  const root = resolve(folder);
  const problems: Problem[] = [...(await findProblems(root))];
  const notes: string[] = [];
  const attempt = createAttempt(problems);

  if (problems.length > 0) {
    // Report an unsupported architecture even if the weights are damaged. Why a file cannot be read is known already.
    const config = await listFolder(root)
      .then((names) => readConfig(root, names))
      .catch(() => ({}));
    const model =
      Object.keys(config).length === 0
        ? undefined
        : await attempt(() => parseConfiguration(config, 'config.json'));
    return {
      folder: root,
      kind: 'unreadable',
      layout: problems.some(({ problem }) => /has no weights\.?$/.test(problem))
        ? 'the folder has no weights'
        : 'the weights cannot be opened',
      model,
      notes,
      problems,
    };
  }

  const checkpoint = await openCheckpoint(root);
  const { kind, layout, system } = recogniseCheckpoint(checkpoint);
  const text = await inspectText(root, checkpoint.config.vocab_size, attempt);
  const common = {
    folder: root,
    kind,
    layout,
    weights: await describeWeights(checkpoint),
    ...text,
  };
  const { taps, target } = options;
  const readHeads = (heads: DraftSystem) =>
    attempt(async () => {
      const fitting = target === undefined ? undefined : await openCheckpoint(target);
      const sizes = fitting && parseConfiguration(fitting.config, `config.json of ${fitting.folder}`);
      return readDrafter(heads, checkpoint, { taps, target: sizes });
    });
  if (kind !== 'decoder' && system !== undefined) {
    const heads = await readHeads(system);
    return { ...common, drafter: heads?.facts, notes, problems: [...problems, ...(heads?.problems ?? [])] };
  }
  const model = await attempt(() => {
    const { config } = checkpoint;
    if (Object.keys(config).length > 0) return parseConfiguration(config, 'config.json');
    throw new MistletoeError('checkpoint', `The folder has no config.json (its tensors: ${layout}).`, {
      hint: 'Add the config.json of the model. Heads such as those of Medusa and EAGLE need none: their tensors identify them.',
    });
  });
  if (model === undefined) return { ...common, notes, problems };
  const tensors = await attempt(() => readDecoderTensors(checkpoint, model));
  if (tensors === undefined) return { ...common, model, notes, problems };
  pushAll(problems, tensors.problems);
  // Medusa-2 keeps its heads in the shards of its target.
  const heads = system === undefined || system === draftModel ? undefined : await readHeads(system);
  pushAll(problems, heads?.problems ?? []);
  pushAll(notes, [...model.notes, ...tensors.notes]);
  if (text.tokenizer !== undefined && text.tokenizer.vocabularySize > model.vocabularySize)
    problems.push({
      problem: `The tokenizer has ${text.tokenizer.vocabularySize} tokens, but the model knows ${model.vocabularySize}.`,
      remedy: 'Take the tokenizer and the weights from the same model.',
    });
  if (text.tokenizer === undefined && problems.length === 0) {
    notes.push(
      'No tokenizer here: it can serve as a drafter with the tokenizer of its target, not as a target.',
    );
  }
  if (target !== undefined)
    await attempt(async () => {
      const other = await compareWithTarget(checkpoint, target);
      const found =
        other === undefined
          ? "nothing shows another vocabulary than the target's."
          : `${describeSharing(other)}. It has no gradient for audits and training.`;
      notes.push(`As a draft model for ${target}: ${found}`);
    });
  return { ...common, model, drafter: heads?.facts, memory: describeMemory(model), notes, problems };
}

type Attempt = <Result>(action: () => Promise<Result> | Result) => Promise<Result | undefined>;

function createAttempt(problems: Problem[]): Attempt {
  return async (action) => {
    try {
      return await action();
    } catch (failure) {
      problems.push(toProblem(failure));
      return undefined;
    }
  };
}

async function inspectText(
  root: string,
  vocabularySize: unknown,
  attempt: Attempt,
): Promise<Pick<Inspection, 'tokenizer' | 'chatTemplate'>> {
  if ((await attempt(() => hasTokenizer(root))) !== true) return {};
  const tokenizer = await attempt(async (): Promise<TokenizerFacts> => {
    const config = await readTokenizerConfig(root);
    const modelVocabularySize = Number.isSafeInteger(vocabularySize) ? (vocabularySize as number) : undefined;
    const file = await readTokenizerFile(root, config, { modelVocabularySize });
    const { kind, path } = file;
    const tokenizer = await openTokenizer(root, config, file);
    return {
      kind:
        basename(path) === 'tokenizer.json' ? (kind ?? 'unnamed kind') : `${kind ?? ''} of ${basename(path)}`,
      vocabularySize: tokenizer.vocabularySize,
      specialTokens: [...tokenizer.specialIds].map((id) => tokenizer.tokenText(id)),
    };
  });
  const chatTemplate = await attempt(async () => {
    const template = await loadChatTemplate(root);
    if (template === undefined) return undefined;
    const sample = renderChat(template, [{ role: 'user', content: 'Hello!' }]);
    return { origin: template.origin, sample };
  });
  return { tokenizer, chatTemplate };
}

async function describeWeights({ files, tensors }: Checkpoint): Promise<WeightFacts> {
  const sizes = await Promise.all(files.map(async (file) => (await stat(file)).size));
  const dtypes: Partial<Record<StoredDType, number>> = {};
  for (const { dtype, shape } of tensors.values()) {
    dtypes[dtype] = (dtypes[dtype] ?? 0) + (countElements(shape) ?? 0);
  }
  return {
    files,
    sizeBytes: sizes.reduce((sum, size) => sum + size, 0),
    tensorCount: tensors.size,
    parameterCount: Object.values(dtypes).reduce((sum, count) => sum + count, 0),
    dtypes,
  };
}

function describeMemory(model: ModelConfiguration): MemoryFacts {
  const elements = decoderRecipes(model, '').reduce((sum, { shape }) => sum + (countElements(shape) ?? 0), 0);
  return {
    weightBytes: 4 * elements,
    cacheBytesPerThousandTokens: 1000 * countPositionBytes(model),
  };
}
