/** A tiny target and a tiny draft model, each as a folder and as a GGUF file beside it. */
import { join } from 'node:path';
import { openCheckpoint } from '../../src/checkpoint/open-checkpoint.js';
import type { GgufMetadata } from '../support/checkpoint/encode-gguf.js';
import { describeTokenizer } from '../support/checkpoint/gguf-tokenizer.js';
import { text, writeGguf } from '../support/checkpoint/write-gguf.js';
import { tiny, writeDecoder, writeLetterTokenizer } from '../support/tiny-checkpoints.js';

/** Writes target, target.gguf, draft, draft.gguf, and forgotten.gguf, whose queries and keys are not interleaved. */
export async function writeTinyPair(folder: string): Promise<void> {
  const place = (name: string): string => join(folder, name);
  const target = writeDecoder(place('target'), tiny);
  writeLetterTokenizer(target, tiny);
  const draft = writeDecoder(place('draft'), { ...tiny, layerCount: 1 });
  const metadata: GgufMetadata = {
    ...describeTokenizer(target, { kind: 'llama' }),
    'tokenizer.ggml.add_space_prefix': { type: 'bool', value: false },
    'tokenizer.chat_template': text('{{ messages[0].content }}'),
  };
  const checkpoint = await openCheckpoint(target);
  await writeGguf(checkpoint, place('target.gguf'), { metadata });
  await writeGguf(checkpoint, place('forgotten.gguf'), { metadata, interleaves: false });
  await writeGguf(await openCheckpoint(draft), place('draft.gguf'));
}
