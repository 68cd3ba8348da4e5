/** A tiny target whose tokens are letters, with a chat template of letters and a letter that ends answers. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeTemporaryFolder } from '../checkpoint/temporary-folder.js';
import type { Target, TargetOptions } from '../../../src/decode/target.js';
import { openTarget } from '../../../src/decode/target.js';
import { createOnnxRuntime } from '../../../src/runtime/onnx/onnx-runtime.js';
import { tiny, writeDecoder, writeLetterTokenizer } from '../tiny-checkpoints.js';

/** u QUESTION a ANSWER q, and s before a system message. */
export const letterTemplate =
  "{% for m in messages %}{% if m['role'] == 'assistant' %}a{{ m['content'] }}q" +
  "{% else %}{{ m['role'][0] }}{{ m['content'] }}{% endif %}{% endfor %}{% if add_generation_prompt %}a{% endif %}";

export class LetterTarget {
  private readonly temporary = makeTemporaryFolder();
  private readonly runtime = createOnnxRuntime({ threads: 1 });
  private count = 0;

  /** With a tokenizer of its own where one is given. */
  async open(options: Partial<TargetOptions> = {}, tokenizer?: object): Promise<Target> {
    const folder = writeDecoder(join(this.temporary.path, `target-${(this.count += 1)}`), tiny);
    writeLetterTokenizer(folder, tiny);
    if (tokenizer !== undefined) writeFileSync(join(folder, 'tokenizer.json'), JSON.stringify(tokenizer));
    writeFileSync(join(folder, 'chat_template.jinja'), letterTemplate);
    writeFileSync(join(folder, 'generation_config.json'), JSON.stringify({ eos_token_id: letterId('q') }));
    const cacheFolder = join(this.temporary.path, 'cache');
    return openTarget(folder, { runtime: this.runtime, cacheFolder, ...options });
  }

  freshPath(name: string): string {
    return join(this.temporary.path, `${(this.count += 1)}-${name}`);
  }

  async dispose(): Promise<void> {
    await this.runtime.dispose();
    this.temporary.remove();
  }
}

export const letterId = (letter: string): number => letter.charCodeAt(0) - 97;
export const letterIds = (text: string): number[] => Array.from(text, letterId);
