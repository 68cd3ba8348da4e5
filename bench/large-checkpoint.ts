/**
 * A checkpoint of 1.1 B parameters in float16 with random weights, written to a temporary folder, and what
 * `mistletoe generate` needs for it: time to the first token, cold and warm, and peak memory.
 * Run: npm run build && npm run bench:large   (needs about 7 GB of disk; Linux, for /proc)
 */
import { spawn } from 'node:child_process';
import {
  closeSync,
  copyFileSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { bundledTarget, packageRoot } from '../src/decode/bundled-models.js';
import { describeMachine } from '../src/measure/machine.js';
import { printTable } from './stopwatch.js';

const sizes = { hidden: 2048, inner: 5632, layers: 22, heads: 32, keyValueHeads: 4, vocabulary: 32000 };
const folder = mkdtempSync(join(tmpdir(), 'mistletoe-large-'));
try {
  const parameters = writeCheckpoint();
  const machine = describeMachine();
  console.log(
    `${machine.processor} (${machine.architecture}), ${machine.cores} cores; ${(parameters / 1e9).toFixed(2)} B parameters, float16\n`,
  );
  const rows = [['run', 'first token', 'peak resident', 'of it anonymous']];
  for (const run of ['cold (converts the weights)', 'warm (cache file present)']) {
    const { firstMs, peakBytes, anonymousBytes } = await generate();
    const gigabytes = (bytes: number): string => `${(bytes / 2 ** 30).toFixed(2)} GiB`;
    rows.push([run, `${(firstMs / 1000).toFixed(1)} s`, gigabytes(peakBytes), gigabytes(anonymousBytes)]);
  }
  printTable(rows);
} finally {
  rmSync(folder, { recursive: true, force: true });
}

function writeCheckpoint(): number {
  const { hidden, inner, layers, heads, keyValueHeads, vocabulary } = sizes;
  const keyValueWidth = (hidden / heads) * keyValueHeads;
  const shapes: [string, number[]][] = [['model.embed_tokens.weight', [vocabulary, hidden]]];
  for (let layer = 0; layer < layers; layer++) {
    const name = `model.layers.${layer}`;
    shapes.push(
      [`${name}.input_layernorm.weight`, [hidden]],
      [`${name}.self_attn.q_proj.weight`, [hidden, hidden]],
      [`${name}.self_attn.k_proj.weight`, [keyValueWidth, hidden]],
      [`${name}.self_attn.v_proj.weight`, [keyValueWidth, hidden]],
      [`${name}.self_attn.o_proj.weight`, [hidden, hidden]],
      [`${name}.post_attention_layernorm.weight`, [hidden]],
      [`${name}.mlp.gate_proj.weight`, [inner, hidden]],
      [`${name}.mlp.up_proj.weight`, [inner, hidden]],
      [`${name}.mlp.down_proj.weight`, [hidden, inner]],
    );
  }
  shapes.push(['model.norm.weight', [hidden]], ['lm_head.weight', [vocabulary, hidden]]);
  const header: Record<string, unknown> = {};
  let offset = 0;
  let parameters = 0;
  for (const [name, shape] of shapes) {
    const count = shape.reduce((product, size) => product * size, 1);
    header[name] = { dtype: 'F16', shape, data_offsets: [offset, offset + 2 * count] };
    offset += 2 * count;
    parameters += count;
  }
  const json = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(json.length));
  const file = openSync(join(folder, 'model.safetensors'), 'w');
  writeSync(file, length);
  writeSync(file, json);
  // Small values of both signs: exponents around 2^-6, the rest of the bits by a linear congruence.
  const block = new Uint16Array(1 << 22);
  let state = 1;
  for (let index = 0; index < block.length; index++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    block[index] = ((state >>> 16) & 0x83ff) | 0x2400;
  }
  for (let rest = offset; rest > 0; rest -= block.byteLength) {
    writeSync(file, new Uint8Array(block.buffer, 0, Math.min(rest, block.byteLength)));
  }
  closeSync(file);
  const config = {
    architectures: ['LlamaForCausalLM'],
    model_type: 'llama',
    hidden_size: hidden,
    intermediate_size: inner,
    num_hidden_layers: layers,
    num_attention_heads: heads,
    num_key_value_heads: keyValueHeads,
    vocab_size: vocabulary,
    max_position_embeddings: 2048,
    rms_norm_eps: 1e-5,
    rope_theta: 10000,
  };
  writeFileSync(join(folder, 'config.json'), JSON.stringify(config));
  for (const name of ['tokenizer.json', 'tokenizer_config.json'])
    copyFileSync(join(bundledTarget, name), join(folder, name));
  return parameters;
}

/** The real command in a process of its own, watched from outside. */
async function generate(): Promise<{ firstMs: number; peakBytes: number; anonymousBytes: number }> {
  const start = performance.now();
  const child = spawn(
    process.execPath,
    [
      join(packageRoot, 'dist/cli/main.js'),
      'generate',
      '--target',
      folder,
      '--raw',
      '--prompt',
      'Once upon a time',
      '--max-new-tokens',
      '4',
      '--cache-dir',
      join(folder, 'cache'),
    ],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  let firstMs = 0;
  let peakBytes = 0;
  let anonymousBytes = 0;
  child.stdout.on('data', () => {
    firstMs ||= performance.now() - start;
  });
  const watch = setInterval(() => {
    try {
      const status = readFileSync(`/proc/${child.pid ?? 0}/status`, 'utf8');
      const read = (field: string): number =>
        1024 * Number(new RegExp(`${field}:\\s+(\\d+)`).exec(status)?.[1] ?? 0);
      peakBytes = Math.max(peakBytes, read('VmHWM'));
      anonymousBytes = Math.max(anonymousBytes, read('RssAnon'));
    } catch {
      // The child has just ended.
    }
  }, 50);
  const status = await new Promise((resolve) => child.on('exit', resolve));
  clearInterval(watch);
  if (status !== 0) throw new Error(`generate ended with exit code ${String(status)}`);
  return { firstMs, peakBytes, anonymousBytes };
}
