/** Conversations, folders of runs and settings that would hang, grow or steer what trains and hardens. */
import { join } from 'node:path';
import type { MaliciousCase } from './case.js';
import { nest, writeFiles, writeTarget } from './case.js';

const train = (folder: string, data: string): string[] => [
  ...['train', '--target', writeTarget(folder), '--system', 'medusa', '--data', data, '--steps', '1'],
  ...['--threads', '1', '--out', join(folder, 'run')],
];
const withConversations = (name: string, contents: string): MaliciousCase => ({
  name,
  write: (folder) =>
    train(folder, join(writeFiles(join(folder, 'data'), { 'c.jsonl': contents }), 'c.jsonl')),
});
const withRun = (name: string, command: 'train' | 'harden', contents: string): MaliciousCase => ({
  name,
  write: (folder) => [command, '--resume', writeFiles(join(folder, 'run'), { 'config.json': contents })],
});

export const trainingCases: readonly MaliciousCase[] = [
  withConversations('a conversation of 200,000 nested lists', nest(200_000)),
  withConversations('half a million blank lines for conversations', '\n'.repeat(500_000)),
  withConversations('a conversation without end of 900,000 letters', `{"prompt":"${'a'.repeat(900_000)}`),
  withConversations(
    'two conversations whose id steers the terminal',
    '{"id":"\\u001b[2J\\u202e","prompt":"a"}\n'.repeat(2),
  ),
  withConversations(
    'a conversation of 20,000 system messages',
    JSON.stringify({ messages: new Array(20_000).fill({ role: 'system', content: 'a' }) }),
  ),
  {
    name: '/dev/zero for conversations',
    write: (folder) => train(folder, '/dev/zero'),
  },
  withRun('a training run of 400,000 nested lists', 'train', nest(400_000)),
  withRun('a hardening run whose version steers the terminal', 'harden', '{"version":"\\u001b[2J"}'),
  withRun(
    'a training run in the place of a hardening run',
    'harden',
    '{"schema":"mistletoe.training-run/1"}',
  ),
];
