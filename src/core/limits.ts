/**
 * Limits on the size of untrusted input, listed in docs/limits.md. Each is several times what real files and options need.
 * Limits of one algorithm are beside it: chat templates in text/template/template-budget.ts, pickles in checkpoint/torch/.
 */
const mebibyte = 2 ** 20;

/** Max bytes of a file, by its kind. */
export const fileLimits = {
  /** config.json and generation_config.json; the longest published ones have some 100 kB. */
  configuration: 4 * mebibyte,
  /** tokenizer_config.json, special_tokens_map.json and added_tokens.json. */
  tokenizerConfiguration: 16 * mebibyte,
  /** tokenizer.json: that of a vocabulary of 256,000 has 35 MB. */
  tokenizer: 64 * mebibyte,
  /** tokenizer.model. */
  sentencePiece: 32 * mebibyte,
  /** chat_template.jinja, or the file of --chat-template. */
  template: mebibyte,
  /** model.safetensors.index.json and its like: those of the largest published models have 10 MB. */
  shardIndex: 32 * mebibyte,
  /** The header of a safetensors file; the reference implementation reads 100,000,000 bytes. */
  safetensorsHeader: 32 * mebibyte,
  /** Metadata and tensor list of a GGUF file, with its vocabulary: that of Llama 3 has 8 MB. */
  ggufHeader: 64 * mebibyte,
  promptSet: 64 * mebibyte,
  /** What is read of a Parquet file, and what that unfolds into: the sets of the hub have 2 MB. */
  unfoldedParquet: 16 * mebibyte,
  /** Conversations to train on, and the answers to them: the whole of ShareGPT has some 700 MB. */
  conversations: 4096 * mebibyte,
  /** One of them. */
  conversation: 16 * mebibyte,
  suffixes: 1_000_000,
  /** result.json and the other files of a run. */
  auditResult: 512 * mebibyte,
  /** One answer of the Hugging Face hub's API: a page of 1,000 files has some 300 kB. */
  hubAnswer: 16 * mebibyte,
  /** The YAML file of --config: all settings of a command have a kilobyte or two. The parser is slow on some texts. */
  settings: 32 * 1024,
  /** tree:FILE.json. */
  tree: mebibyte,
  /** A unit of a run from a queue, unpacked: prompts, settings, and a template at most. */
  unitInput: 16 * mebibyte,
  /** Its output: kilobytes for a search, more for many given suffixes. */
  unitOutput: 128 * mebibyte,
} as const;

/** Prompts of a set; the largest published ones have some thousands. */
export const maxPrompts = 100_000;

/** Threads of the runtime. More threads than CPUs only wait for each other. */
export const maxThreads = 512;

/** Workers of a run on one machine. */
export const maxWorkers = 256;

/** Levels of a draft: each is one pass of the drafter, and greedy chains are compiled level by level. */
export const deepestDraft = 64;
/** Nodes of a draft, including its root: the target computes logits for each in one pass. */
export const maxDraftNodes = 1024;
/** Nodes expanded in each round of a dynamic tree, and children of each. */
export const widestDraft = 64;

/** Tokens of an answer. Contexts are shorter. */
export const maxNewTokensLimit = 10_000_000;

/** Tokens of a tokenizer whose model is not known; the largest published vocabularies have some 260,000. */
export const maxVocabularySize = 1_000_000;
