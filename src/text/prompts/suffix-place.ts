/**
 * The position of a suffix in a prompt: at `{suffix}` if the text has it, else directly after the user's text, before the
 * rest of the chat template. Nothing is inserted between, so the empty suffix gives exactly the clean prompt. A suffix
 * that should be a separate word starts with a space.
 */
import { MistletoeError } from '../../core/errors.js';
import { renderChat, type ChatMessage, type ChatTemplate } from '../template/chat-template.js';

export const suffixPlaceholder = '{suffix}';

export interface SuffixPlace {
  readonly before: string;
  readonly after: string;
}

export function splitAroundSuffix(text: string): SuffixPlace {
  const [before, after, ...more] = text.split(suffixPlaceholder);
  if (more.length > 0) {
    throw new MistletoeError(
      'text',
      `The prompt has ${suffixPlaceholder} ${more.length + 1} times; it may stand there once.`,
      { hint: `Keep the one ${suffixPlaceholder} where the suffix belongs.` },
    );
  }
  return { before: before ?? '', after: after ?? '' };
}

/** Renders the chat with the suffix in its last user message. */
export function renderChatWithSuffix(
  template: ChatTemplate,
  conversation: string | readonly ChatMessage[],
  suffix: string,
): string {
  return renderChat(template, placeInLastUserMessage(conversation, suffix));
}

/**
 * The rendered text around the suffix. `before + suffix + after` is the real rendering unless the template alters the
 * user's text, for example by trimming a suffix that ends in a space: compare with renderChatWithSuffix where it matters.
 */
export function splitChatAroundSuffix(
  template: ChatTemplate,
  conversation: string | readonly ChatMessage[],
): SuffixPlace {
  const marker = chooseMarker(JSON.stringify(conversation));
  const parts = renderChatWithSuffix(template, conversation, marker).split(marker);
  const [before, after] = parts;
  if (parts.length !== 2 || before === undefined || after === undefined) {
    throw new MistletoeError(
      'text',
      `The chat template in ${template.origin} writes the user's text ${parts.length - 1} times; ` +
        'a suffix needs it exactly once.',
      { hint: 'Use --raw with the prompt written out, or another chat_template.jinja.' },
    );
  }
  return { before, after };
}

function placeInLastUserMessage(
  conversation: string | readonly ChatMessage[],
  suffix: string,
): readonly ChatMessage[] {
  const messages: readonly ChatMessage[] =
    typeof conversation === 'string' ? [{ role: 'user', content: conversation }] : conversation;
  const last = messages.findLastIndex(({ role }) => role === 'user');
  if (last < 0) throw new MistletoeError('text', 'The conversation has no user message to carry a suffix.');
  return messages.map((message, index) => {
    if (index !== last) return message;
    const { before, after } = splitAroundSuffix(message.content);
    return { role: message.role, content: before + suffix + after };
  });
}

function chooseMarker(text: string): string {
  let marker = 'SuffixGoesHere';
  while (text.includes(marker)) marker += 'X';
  return marker;
}
