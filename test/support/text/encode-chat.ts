import type { ChatMessage, ChatTemplate } from '../../../src/text/template/chat-template.js';
import { encodeRendered, renderChat } from '../../../src/text/template/chat-template.js';
import type { Tokenizer } from '../../../src/text/tokenizer/tokenizer.js';

export function encodeChat(
  tokenizer: Tokenizer,
  template: ChatTemplate,
  messages: readonly ChatMessage[],
): Promise<number[]> {
  return encodeRendered(tokenizer, template, renderChat(template, messages));
}
