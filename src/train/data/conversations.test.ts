import { join } from 'node:path';
import { writeFileSync } from 'node:fs';
import { afterAll, describe, expect, it } from 'vitest';
import { makeTemporaryFolder } from '../../../test/support/checkpoint/temporary-folder.js';
import { bundledPrompts } from '../../core/package-files.js';
import { readConversations } from './conversations.js';

const folder = makeTemporaryFolder();
afterAll(() => {
  folder.remove();
});
let count = 0;

function write(...lines: readonly unknown[]): string {
  const path = join(folder.path, `data-${(count += 1)}.jsonl`);
  const texts = lines.map((line) => (typeof line === 'string' ? line : JSON.stringify(line)));
  writeFileSync(path, `${texts.join('\n')}\n`);
  return path;
}

const user = (content: string) => ({ role: 'user', content });
const assistant = (content: string) => ({ role: 'assistant', content });
const system = (content: string) => ({ role: 'system', content });

describe('reading conversations', () => {
  it('reads every shape, mixed in one file', async () => {
    const path = write(
      { id: 'a', messages: [system('S'), user('1'), assistant('2'), user('3')] },
      '',
      { question_id: 7, category: 'math', turns: ['1', '2'], reference: ['no answer of the target'] },
      { prompt: 'p', answer: 'q' },
      { id: 'd', question: 'p', answer: null },
      JSON.stringify('just a prompt'),
      {
        id: 'e',
        conversations: [
          { from: 'system', value: 'S' },
          { from: 'human', value: '1' },
          { from: 'gpt', value: '2' },
        ],
      },
    );
    expect(await readConversations(path)).toEqual([
      { id: 'a', messages: [system('S'), user('1'), assistant('2'), user('3')] },
      { id: '7', messages: [user('1'), user('2')] },
      { id: 'line-4', messages: [user('p'), assistant('q')] },
      { id: 'd', messages: [user('p')] },
      { id: 'line-6', messages: [user('just a prompt')] },
      { id: 'e', messages: [system('S'), user('1'), assistant('2')] },
    ]);
  });

  it('drops an answer to nothing at the beginning, behind a system message too', async () => {
    const talk = [assistant('0'), user('1'), assistant('2')];
    const path = write({ messages: talk }, { messages: [system('S'), ...talk] });
    const messages = (await readConversations(path)).map((conversation) => conversation.messages);
    expect(messages).toEqual([
      [user('1'), assistant('2')],
      [system('S'), user('1'), assistant('2')],
    ]);
  });

  it('reads the bundled prompts, a file with a byte order mark, CRLF and no last line end', async () => {
    expect((await readConversations(bundledPrompts)).length).toBeGreaterThan(5);
    const path = join(folder.path, 'windows.jsonl');
    writeFileSync(path, '\ufeff{"prompt": "ä"}\r\n\r\n{"prompt": "b"}');
    expect((await readConversations(path)).map(({ id }) => id)).toEqual(['line-1', 'line-3']);
  });

  it('reads lines that are longer than a chunk of the file', async () => {
    const long = 'é'.repeat(200_000);
    const read = await readConversations(write({ prompt: 'a' }, { prompt: long }, { prompt: 'b' }));
    expect(read.map(({ messages }) => messages[0]!.content)).toEqual(['a', long, 'b']);
  });
});

describe('bad lines are named with their place and what was expected', () => {
  const good = { prompt: 'fine' };
  it.each([
    ['no JSON', '{"prompt": ', /line 2, is not valid JSON/],
    ['another object', { text: 'x' }, /line 2, is not a conversation: expected an object with one of "messages", "conversations", "turns", "prompt", "question", saw \{"text":"x"\}/], // prettier-ignore
    ['a number', 7, /line 2, .* saw 7/],
    ['an unknown role', { messages: [{ role: 'tool', content: 'x' }] }, /line 2, .*"user" or "assistant".*messages\.0\.role is "tool"/], // prettier-ignore
    ['an unknown speaker', { conversations: [{ from: 'bing', value: 'x' }] }, /line 2, .*conversations\.0\.from is "bing"/], // prettier-ignore
    ['an empty text', { messages: [user('x'), assistant('  ')] }, /messages\.1\.content is " {2}"/],
    ['no turns', { turns: [] }, /line 2, .*"turns" should be .*turns is \[\]/],
    ['two of a role', { messages: [user('1'), user('2')] }, /line 2, .*message 2 is of the role user, but one of the assistant/], // prettier-ignore
    ['a late system message', { messages: [user('1'), system('S')] }, /message 2 is of the role system/],
    ['two answers to nothing', { messages: [assistant('1'), assistant('2')] }, /message 2 is of the role assistant, but one of the user/], // prettier-ignore
    ['no user at all', { messages: [system('S'), assistant('1')] }, /no message of a user/],
    ['nothing in it', { messages: [] }, /no message of a user/],
  ])('%s', async (_, line, message) => {
    const path = write(good, line);
    const failure = readConversations(path);
    await expect(failure).rejects.toMatchObject({ code: 'text', hint: expect.any(String) as string });
    await expect(failure).rejects.toThrow(message);
    await expect(failure).rejects.toThrow(path);
  });

  it('an id that is there already', async () => {
    const path = write({ id: 'a', prompt: '1' }, { question_id: 'a', prompt: '2' });
    await expect(readConversations(path)).rejects.toThrow(/line 2, has the id a, which line 1 has already/);
  });

  it('bytes that are no text', async () => {
    const path = join(folder.path, 'latin.jsonl');
    writeFileSync(path, Buffer.from('{"prompt": "\xe9"}\n', 'latin1'));
    await expect(readConversations(path)).rejects.toThrow(/line 1, is not UTF-8/);
  });

  it('a line beyond the bound, a folder, an empty file, no file', async () => {
    const wide = write(good, { prompt: 'x'.repeat(17 * 2 ** 20) });
    await expect(readConversations(wide)).rejects.toThrow(/line 2 has more than 16777216 bytes/);
    await expect(readConversations(folder.path)).rejects.toThrow(/not a regular file/);
    await expect(readConversations(write(''))).rejects.toThrow(/has no conversation in it/);
    await expect(readConversations(join(folder.path, 'absent'))).rejects.toThrow(/does not exist/);
  });
});
