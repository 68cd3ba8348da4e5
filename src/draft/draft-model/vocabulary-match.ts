/** Whether a draft model has the target's vocabulary, and what the two have in common if not. */
import { openCheckpoint } from '../../checkpoint/open-checkpoint.js';
import type { Checkpoint } from '../../checkpoint/stored-tensor.js';
import { resolveRecipes } from '../../checkpoint/weight-recipe.js';
import { parseConfiguration, type ModelConfiguration } from '../../model/configuration.js';
import { embeddingName, matrixRecipe } from '../../model/weights.js';
import { TokenBytes } from '../../text/tokenizer/token-bytes.js';
import { hasTokenizer } from '../../text/tokenizer/tokenizer-file.js';
import type { Tokenizer, VocabularyDifference } from '../../text/tokenizer/tokenizer.js';
import { findVocabularyDifference, loadTokenizer } from '../../text/tokenizer/tokenizer.js';
import type { DrafterOptions } from '../draft-system.js';
import { misfit } from '../reading/checks.js';

/** The models' tokenizers, and the rows of their tables. */
export interface TokenizerPair {
  readonly target: Tokenizer | undefined;
  /** Undefined if the folder has none: it then uses the target's. */
  readonly draft: Tokenizer | undefined;
  readonly sizes: { readonly target: number; readonly draft: number };
  /** Undefined if they agree on every id, or one is missing. */
  readonly difference: VocabularyDifference | undefined;
}

export async function readTokenizers(
  checkpoint: Checkpoint,
  {
    target,
    tokenizer,
  }: Pick<DrafterOptions, 'tokenizer'> & {
    readonly target: { readonly configuration: { readonly vocabularySize: number } };
  },
): Promise<TokenizerPair> {
  const { folder } = checkpoint;
  const { vocabularySize } = readConfiguration(checkpoint);
  const own = (await hasTokenizer(folder))
    ? await loadTokenizer(folder, { modelVocabularySize: vocabularySize })
    : undefined;
  const sizes = { target: target.configuration.vocabularySize, draft: vocabularySize };
  const difference = tokenizer && own && findVocabularyDifference(tokenizer, own);
  return { target: tokenizer, draft: own, sizes, difference };
}

/** Tables are made in the size of the vocabulary, so config.json has to name that of the weights. */
function readConfiguration(checkpoint: Checkpoint): ModelConfiguration {
  const configuration = parseConfiguration(checkpoint.config, `config.json of ${checkpoint.folder}`);
  const { vocabularySize, hiddenSize } = configuration;
  resolveRecipes(checkpoint, [matrixRecipe(embeddingName, embeddingName, [vocabularySize, hiddenSize])]);
  return configuration;
}

const sameTokenizer = "Use a model with the target's tokenizer.";

export function requireSameVocabulary(folder: string, pair: TokenizerPair): void {
  const { target, draft, sizes, difference } = pair;
  const sizesDiffer = sizes.target !== sizes.draft;
  if (target === undefined || draft === undefined) {
    if (!sizesDiffer) return;
    throw misfit(
      folder,
      `has a vocabulary of ${sizes.draft} tokens; the target's has ${sizes.target}, and without the tokenizers of both nothing shows that the difference is padding`,
      `${sameTokenizer} Put its tokenizer.json into its folder.`,
    );
  }
  if (difference !== undefined) {
    const quote = (piece: string | undefined): string =>
      piece === undefined ? 'nothing' : JSON.stringify(piece);
    throw misfit(
      folder,
      `has another vocabulary: token ${difference.id} is ${quote(difference.right)} there and ${quote(difference.left)} in the target`,
      sameTokenizer,
    );
  }
  const shared = Math.min(sizes.target, sizes.draft);
  if (sizesDiffer && shared < target.vocabularySize) {
    throw misfit(
      folder,
      `has a vocabulary of ${sizes.draft} tokens; the target's has ${sizes.target}, and the tokenizer's ${target.vocabularySize} tokens do not fit into both`,
      sameTokenizer,
    );
  }
}

export interface VocabularyPair {
  readonly target: TokenBytes;
  readonly draft: TokenBytes;
  readonly shared: SharedTokens;
}

/** Undefined if the tokenizers agree on every id. Throws if they have hardly a token in common. */
export function findOtherVocabulary(
  folder: string,
  { target, draft, sizes, difference }: TokenizerPair,
): VocabularyPair | undefined {
  if (target === undefined || draft === undefined || difference === undefined) return undefined;
  const bytes = { target: new TokenBytes(target, sizes.target), draft: new TokenBytes(draft, sizes.draft) };
  const shared = shareTokens(bytes.target, bytes.draft);
  if (100 * shared.words < Math.min(sizes.target, sizes.draft)) {
    throw misfit(
      folder,
      `has ${shared.words} of its ${sizes.draft} tokens in common with the target, which has ${sizes.target}`,
      'With less than 1 % of the smaller vocabulary, hardly any draft would be accepted. Use a model for the same languages.',
    );
  }
  return { ...bytes, shared };
}

/** Without loading the models; undefined if the vocabularies agree, or one of the two has no tokenizer. */
export async function compareWithTarget(
  checkpoint: Checkpoint,
  targetFolder: string,
): Promise<VocabularyPair | undefined> {
  if (!(await hasTokenizer(checkpoint.folder)) || !(await hasTokenizer(targetFolder))) return undefined;
  const target = await openCheckpoint(targetFolder);
  const configuration = readConfiguration(target);
  const tokenizer = await loadTokenizer(target.folder, { modelVocabularySize: configuration.vocabularySize });
  const pair = await readTokenizers(checkpoint, { target: { configuration }, tokenizer });
  return findOtherVocabulary(checkpoint.folder, pair);
}

/** One sentence for the start of a run and for `inspect`. */
export function describeSharing({ target, shared }: VocabularyPair): string {
  return `${shared.count.toLocaleString('en-US')} of the target's ${target.size.toLocaleString('en-US')} tokens are shared: chains at temperature 0 are encoded again in the target's tokens, other drafts use the shared tokens (TLI)`;
}

/**
 * One to one, by the bytes of the tokens: the first id of the same bytes counts, in both vocabularies. Special tokens are
 * shared if they are written alike, and the tokens that end a text always.
 */
export interface SharedTokens {
  /** [draft token] -1 if the target has no such token. */
  readonly targetTokens: Int32Array;
  /** [target token] -1 if the draft model has no such token. */
  readonly draftTokens: Int32Array;
  readonly count: number;
  /** Of these, ordinary ones. */
  readonly words: number;
}

export function shareTokens(target: TokenBytes, draft: TokenBytes): SharedTokens {
  const targetTokens = new Int32Array(draft.size).fill(-1);
  const draftTokens = new Int32Array(target.size).fill(-1);
  let count = 0;
  const share = (own: number | undefined, other: number | undefined): void => {
    if (own === undefined || other === undefined || own >= draft.size || other >= target.size) return;
    if (targetTokens[own] !== -1 || draftTokens[other] !== -1) return;
    targetTokens[own] = other;
    draftTokens[other] = own;
    count += 1;
  };
  for (let id = 0; id < draft.size; id++) {
    const bytes = draft.of(id);
    if (draft.find(bytes) === id) share(id, target.find(bytes));
  }
  const words = count;
  share(draft.tokenizer.eosId, target.tokenizer.eosId);
  for (const [piece, id] of draft.tokenizer.vocabulary()) {
    const other = target.tokenizer.vocabulary().get(piece);
    const isSpecial = draft.tokenizer.isSpecial(id);
    if (isSpecial && other !== undefined && target.tokenizer.isSpecial(other)) share(id, other);
  }
  return { targetTokens, draftTokens, count, words };
}
