/**
 * Role markers of a chat template, such as `USER:` or `<|im_start|>`. A suffix that spells one is a different
 * conversation, not a different suffix.
 */
import type { Tokenizer } from '../tokenizer/tokenizer.js';
import { renderChat, type ChatMessage, type ChatTemplate } from './chat-template.js';

/** Stands in for the messages; no template contains it. */
const content = '\u0001';
const turns: readonly ChatMessage[] = [
  { role: 'user', content },
  { role: 'assistant', content },
  { role: 'user', content },
];

/** The markers around user and assistant messages, and every special token; in lower case. */
export function listRoleMarkers(
  template: ChatTemplate | undefined,
  tokenizer: Pick<Tokenizer, 'specialIds' | 'tokenText'>,
): readonly string[] {
  const special = [...tokenizer.specialIds].map((id) => tokenizer.tokenText(id));
  const parts = template === undefined ? [] : renderTurns(template).split(content);
  const [head = '', ...others] = parts;
  // A system prompt may precede the first marker, so only its last word counts.
  const words = [/\S+\s*$/.exec(head)?.[0] ?? '', ...others].flatMap(
    (part) => part.match(/<[^<>\s]*>|[^\s<>]+/g) ?? [],
  );
  // Bare words such as "user" between special tokens are ordinary text.
  const markers = words.filter((word) => word.length > 1 && /[^\p{L}\p{N}]/u.test(word));
  return [...new Set([...markers, ...special].map((marker) => marker.toLowerCase()))].filter(
    (marker) => marker.trim() !== '',
  );
}

function renderTurns(template: ChatTemplate): string {
  try {
    return renderChat(template, turns);
  } catch {
    return renderChat(template, turns.slice(0, 1)); // some templates refuse a conversation of several turns
  }
}

/** The markers that `text` adds between `before` and `after`, spelled across their borders or inside. */
export function findAddedMarkers(
  { before, after }: { readonly before: string; readonly after: string },
  text: string,
  markers: readonly string[],
): readonly string[] {
  const clean = (before + after).toLowerCase();
  const whole = (before + text + after).toLowerCase();
  return markers.filter((marker) => countOf(whole, marker) !== countOf(clean, marker));
}

const countOf = (text: string, part: string): number => text.split(part).length - 1;
