import { describe, expect, it } from 'vitest';
import { findSpeculation } from '../guard/speculation/find-speculation.js';
import { createScriptedApp } from '../../test/support/serve/scripted-app.js';
import type { Script } from '../../test/support/serve/scripted-worker.js';

interface Chunk {
  readonly id: string;
  readonly object: string;
  readonly choices: readonly {
    readonly index: number;
    readonly delta?: { readonly role?: string; readonly content?: string };
    readonly text?: string;
    readonly logprobs: unknown;
    readonly finish_reason: string | null;
  }[];
  readonly usage?: { readonly completion_tokens: number } | null;
  readonly metrics?: unknown;
}

const script: Script = (_, tell) => {
  tell(' grün', 2);
  tell('');
  tell(' 🙂', 0);
};

async function readChunks(response: Response): Promise<readonly Chunk[]> {
  expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8');
  const text = await response.text();
  expect(text.endsWith('\n\n')).toBe(true);
  const events = text.slice(0, -2).split('\n\n');
  expect(events.at(-1)).toBe('data: [DONE]');
  return events.slice(0, -1).map((event) => {
    expect(event).toMatch(/^data: \{[^\n]*\}$/);
    return JSON.parse(event.slice(6)) as Chunk;
  });
}

describe('a stream', () => {
  it('has the role, the text, the reason of the end, in this order', async () => {
    const { chat } = createScriptedApp({ script });
    const chunks = await readChunks(await chat({ stream: true }));
    expect(new Set(chunks.map(({ id }) => id)).size).toBe(1);
    expect(chunks.every((chunk) => chunk.object === 'chat.completion.chunk' && !('usage' in chunk))).toBe(
      true,
    );
    expect(chunks.map(({ choices }) => choices[0]!.delta)).toEqual([
      ...[{ role: 'assistant', content: '' }, { content: ' grün' }, { content: ' 🙂' }, {}],
    ]);
    expect(chunks.map(({ choices }) => choices[0]!.finish_reason)).toEqual([null, null, null, 'stop']);
  });

  it('ends with the usage where that is asked for, which stands as null before', async () => {
    const { chat } = createScriptedApp({ script });
    const chunks = await readChunks(await chat({ stream: true, stream_options: { include_usage: true } }));
    expect(chunks.slice(0, -1).map(({ usage }) => usage)).toEqual([null, null, null, null]);
    expect(chunks.at(-1)).toMatchObject({
      ...{ choices: [], usage: { prompt_tokens: 3, completion_tokens: 3, total_tokens: 6 } },
    });
  });

  it('tells several answers apart', async () => {
    const { post } = createScriptedApp({ script });
    const chunks = await readChunks(
      await post('/v1/completions', { prompt: ['a', 'b'], n: 2, stream: true, logprobs: 1 }),
    );
    const texts = ['', '', '', ''];
    for (const { choices, object } of chunks) {
      const [{ index, text }] = choices as [Chunk['choices'][number]];
      expect(object).toBe('text_completion');
      texts[index] = `${texts[index]!}${text!}`;
    }
    expect(texts).toEqual(Array.from({ length: 4 }, () => ' grün 🙂'));
    const own = chunks.filter(({ choices }) => choices[0]!.index === 3).map(({ choices }) => choices[0]!);
    const [ended, ...told] = own.toReversed();
    expect(ended!.logprobs).toBeNull();
    expect(told.toReversed().map(({ logprobs }) => logprobs)).toMatchObject([
      { tokens: [' grün'], token_logprobs: [-0.5], text_offset: [0] },
      { tokens: [''], text_offset: [5] },
      { tokens: [' 🙂'], text_offset: [5] },
    ]);
  });
});

describe('acceptance', () => {
  const asked = { mistletoe: { metrics: 'detailed' } };

  it('is told in vLLM’s shape, which the guard reads', async () => {
    const { chat } = createScriptedApp({ script });
    const body: unknown = await (await chat(asked)).json();
    expect(body).toMatchObject({
      metrics: {
        engine: 'mistletoe',
        speculative_decoding: {
          ...{
            mean_acceptance_length: 2,
            draft_acceptance_rate: 0.25,
            acceptance_histogram: [1, 0, 1, 0, 0],
          },
          ...{ num_spec_steps: 2, num_accepted_draft_tokens: 2, num_draft_tokens: 8, num_spec_tokens: 4 },
          ...{ per_step_accepted: [2, 0], per_step_drafted: [4, 4], is_tree: false },
        },
        mistletoe: { drafter: 'head', draft: 'chain:4' },
      },
    });
    expect(findSpeculation(body)).toMatchObject({
      engine: 'mistletoe',
      speculation: { steps: 2, accepted: 2, proposed: 8, perStepAccepted: [2, 0] },
    });
  });

  it('rides on the usage of a stream', async () => {
    const { chat } = createScriptedApp({ script });
    const fields = { ...asked, stream: true, stream_options: { include_usage: true } };
    const chunks = await readChunks(await chat(fields));
    expect(chunks.filter((chunk) => 'metrics' in chunk)).toHaveLength(1);
    expect(chunks.at(-1)).toMatchObject({ metrics: { speculative_decoding: { num_spec_steps: 2 } } });
  });

  it('is a summary, or nothing, by the server’s flag and the request’s word', async () => {
    const { chat } = createScriptedApp({ script, app: { metricsLevel: 'summary' } });
    const summary = (await (await chat()).json()) as { metrics: { speculative_decoding: object } };
    expect(summary.metrics.speculative_decoding).toHaveProperty('num_spec_steps', 2);
    expect(summary.metrics.speculative_decoding).not.toHaveProperty('per_step_accepted');
    expect(await (await chat({ mistletoe: { metrics: 'none' } })).json()).not.toHaveProperty('metrics');
    const plain = await (await chat({ mistletoe: { drafter: 'none' } })).json();
    expect(plain).toMatchObject({ metrics: { speculative_decoding: null } });
  });
});
