import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { builtInTemplateNames } from './built-in-templates.js';
import { type ChatTemplate, findAddedMarkers, listRoleMarkers, loadChatTemplate } from './chat-template.js';

const bundledTarget = join(import.meta.dirname, '../../../models/reference/target');
const tokenizer = { specialIds: new Set([1, 2]), tokenText: (id: number) => ['', '<s>', '</s>'][id] ?? '' };

const load = async (chatTemplate?: string): Promise<ChatTemplate> =>
  (await loadChatTemplate(bundledTarget, chatTemplate === undefined ? {} : { chatTemplate }))!;

describe('role markers', () => {
  it('are what the bundled template writes around messages, and special tokens', async () => {
    expect([...listRoleMarkers(await load(), tokenizer)].sort()).toEqual([
      '</s>',
      '<s>',
      'assistant:',
      'user:',
    ]);
  });

  it.each(builtInTemplateNames)('%s has some, and none is an ordinary word', async (name) => {
    const markers = listRoleMarkers(await load(name), tokenizer);
    expect(markers.length).toBeGreaterThan(2);
    expect(markers.filter((marker) => /^\w+$/.test(marker))).toEqual([]);
  });

  it('are found inside a suffix, across its borders, and in any case', () => {
    const markers = ['user:', 'assistant:'];
    const place = { before: 'USER: Hi', after: ' ASSISTANT:' };
    expect(findAddedMarkers(place, ' a user b', markers)).toEqual([]);
    expect(findAddedMarkers(place, ' User: x', markers)).toEqual(['user:']);
    expect(findAddedMarkers({ before: 'USER: the us', after: '' }, 'er: x', markers)).toEqual(['user:']);
    expect(findAddedMarkers({ before: '', after: ':' }, ' user', markers)).toEqual(['user:']);
  });
});
