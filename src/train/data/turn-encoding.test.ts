import { afterAll, describe, expect, it } from 'vitest';
import { bundledTarget } from '../../core/package-files.js';
import type { Target, TargetOptions } from '../../decode/target.js';
import { openTarget } from '../../decode/target.js';
import { createOnnxRuntime } from '../../runtime/onnx/onnx-runtime.js';
import type { ChatMessage } from '../../text/template/chat-template.js';
import { plainTokenizer } from '../../../test/support/tiny-checkpoints.js';
import { letterId, letterIds, LetterTarget } from '../../../test/support/train/letter-target.js';
import { encodeGivenAnswer, encodeQuestion } from './conversation-answering.js';

const runtime = createOnnxRuntime({ threads: 1 });
const letters = new LetterTarget();
afterAll(() => Promise.all([runtime.dispose(), letters.dispose()]));
const open = (options: Partial<TargetOptions> = {}): Promise<Target> =>
  openTarget(bundledTarget, { runtime, ...options });
const question: readonly ChatMessage[] = [{ role: 'user', content: 'Write Hello.' }];

async function encode(target: Target, answer: string, messages = question) {
  const ids = await encodeQuestion(target, messages, 'The conversation x');
  const answerIds = await encodeGivenAnswer(target, { messages, ids }, answer, 'The conversation x');
  return {
    ids,
    answerIds,
    text: target.tokenizer.decode([...ids, ...answerIds], { skipSpecialTokens: false }),
  };
}

describe('an answer that is given', () => {
  it('follows the ids of its prompt and ends as the target ends one', async () => {
    const target = await open();
    for (const answer of ['Hello.', 'def f():\n    return 1\n', '\n\nHello', '1 2 3', 'Ünïcödé 🌿']) {
      const { ids, answerIds } = await encode(target, answer);
      expect(target.stopIds).toContain(answerIds.at(-1));
      expect(answerIds.slice(0, -1).some((id) => target.stopIds.includes(id))).toBe(false);
      expect(target.tokenizer.decode([...ids, ...answerIds])).toContain(answer);
    }
  });

  it('leaves out what a template writes behind the end', async () => {
    const source =
      "{% for m in messages %}{{ m['role'] + ': ' + m['content'] + '</s>\\n' }}{% endfor %}" +
      "{% if add_generation_prompt %}{{ 'assistant:' }}{% endif %}";
    const { text } = await encode(await open({ chatTemplate: { source, origin: 'other' } }), 'Hello.');
    expect(text).toMatch(/assistant: Hello\.<\/s>$/);
  });

  it('is encoded by itself where a token would reach into the prompt', async () => {
    const pieces = [...Array.from('abcdefghijklmnopqrstuvw'), 'ab'];
    const file = plainTokenizer(pieces);
    const model = { ...(file.model as object), merges: [['a', 'b']] };
    const target = await letters.open({}, { ...file, model });
    expect(await target.tokenizer.encode('cab')).toEqual([letterId('c'), 23]);
    const { ids, answerIds } = await encode(target, 'bcab', [{ role: 'user', content: 'k' }]);
    expect(ids).toEqual(letterIds('uka'));
    expect(answerIds).toEqual([...letterIds('bc'), 23, letterId('q')]);
  });

  it('is refused where the tokenizer writes another text for it by itself', async () => {
    const target = await open({ chat: false });
    const inWord = encode(target, 'ction', [{ role: 'user', content: 'def fun' }]);
    await expect(inWord).rejects.toThrow(/^The conversation x .* a token reaches from one into the other/);
  });

  it('is refused where the template does not write the prompt first', async () => {
    const source =
      "{% for m in messages %}{{ m['role'] + m['content'] }}{% endfor %}" +
      "{% if add_generation_prompt %}{{ 'assistant<think>' }}{% endif %}";
    const target = await open({ chatTemplate: { source, origin: 'thinking.jinja' } });
    await expect(encode(target, 'Hello')).rejects.toMatchObject({
      code: 'text',
      message: expect.stringMatching(/^The conversation x has an answer .* thinking\.jinja/) as string,
      hint: expect.stringContaining('Let the target write the answers anew') as string,
    });
  });

  it('is refused for several messages where there is no template', async () => {
    const target = await open({ chat: false });
    await expect(encode(target, 'x', [...question, ...question])).rejects.toThrow(/without a chat template/);
  });
});
