import type { FuzzKind } from './kind.js';
import { config } from './kinds/config.js';
import { conversations } from './kinds/conversations.js';
import { gguf } from './kinds/gguf.js';
import { parquet } from './kinds/parquet.js';
import { prompts } from './kinds/prompts.js';
import { report } from './kinds/report.js';
import { request } from './kinds/request.js';
import { result } from './kinds/result.js';
import { runFolder } from './kinds/run-folder.js';
import { safetensors } from './kinds/safetensors.js';
import { shardIndex } from './kinds/shard-index.js';
import { template } from './kinds/template.js';
import { templateProgram } from './kinds/template-program.js';
import { tokenizer } from './kinds/tokenizer.js';
import { tokenizerStructure } from './kinds/tokenizer-structure.js';
import { torch } from './kinds/torch.js';
import { trainingRun } from './kinds/training-run.js';
import { tree } from './kinds/tree.js';

export const fuzzKinds: readonly FuzzKind[] = [
  ...[
    safetensors,
    torch,
    gguf,
    config,
    shardIndex,
    tokenizer,
    template,
    prompts,
    parquet,
    tree,
    runFolder,
    result,
    report,
  ],
  ...[request, conversations, trainingRun, tokenizerStructure, templateProgram],
];
