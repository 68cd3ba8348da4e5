/**
 * Takes added telemetry out of a passing response. Bytes are handled as Latin-1 text: everything that is looked for is
 * ASCII, and all other bytes pass unchanged, whatever their encoding.
 */
import type { Strip } from './telemetry-request.js';
import { stripData } from './telemetry-request.js';

export interface ResponseStrip {
  /** Whether the response is complete before any of it passes. */
  readonly isWhole: boolean;
  push(bytes: Buffer): Buffer;
  finish(): Buffer;
}

const maxHeld = 8 << 20;
const nothing = Buffer.alloc(0);

/** Undefined where the response has nothing to take out. */
export function createResponseStrip(strip: Strip, contentType: string): ResponseStrip | undefined {
  if (contentType.startsWith('text/event-stream')) return stripStream(strip);
  return strip.fields.length > 0 && contentType.startsWith('application/json') ? stripBody(strip) : undefined;
}

function stripStream(strip: Strip): ResponseStrip {
  let held = '';
  const flush = (): Buffer => {
    const rest = held;
    held = '';
    return Buffer.from(rest, 'latin1');
  };
  return {
    isWhole: false,
    push(bytes) {
      held += bytes.toString('latin1');
      let passed = '';
      let from = 0;
      for (;;) {
        const end = findEventEnd(held, from);
        if (end < 0) break;
        passed += stripEvent(held.slice(from, end), strip);
        from = end;
      }
      held = held.slice(from);
      if (held.length > maxHeld) return Buffer.concat([Buffer.from(passed, 'latin1'), flush()]);
      return passed === '' ? nothing : Buffer.from(passed, 'latin1');
    },
    finish: flush,
  };
}

/** The position after the blank line that ends an event, or -1. */
function findEventEnd(text: string, from: number): number {
  const feeds = text.indexOf('\n\n', from);
  const returns = text.indexOf('\r\n\r\n', from);
  if (returns >= 0 && (feeds < 0 || returns < feeds)) return returns + 4;
  return feeds < 0 ? -1 : feeds + 2;
}

const onlyData = /^(data: ?)(.*?)((?:\r?\n)+)$/;

function stripEvent(event: string, strip: Strip): string {
  const [, field, data, ending] = onlyData.exec(event) ?? [];
  if (data === undefined) return event;
  const stripped = stripData(data, strip);
  if (stripped === data) return event;
  return stripped === undefined ? '' : `${field}${stripped}${ending}`;
}

function stripBody(strip: Strip): ResponseStrip {
  const pieces: Buffer[] = [];
  return {
    isWhole: true,
    push(bytes) {
      pieces.push(bytes);
      return nothing;
    },
    finish() {
      const text = Buffer.concat(pieces).toString('latin1');
      return Buffer.from(stripData(text, strip) ?? text, 'latin1');
    },
  };
}
