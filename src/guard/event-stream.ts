/**
 * Server-sent events, read beside a stream that others pass on: bytes in whatever pieces they come, data of whole events
 * out. Lines end in CR, LF or both, a character may be torn between two pieces, an event has several lines of data, and
 * one that never ends is not given out (WHATWG HTML, section 9.2.6). Lines and events above the limit are passed over, so that
 * memory is bounded. The result does not depend on how the bytes were cut.
 */
export interface EventStream {
  /** Data of the events that these bytes complete. */
  push(bytes: Uint8Array): readonly string[];
  /** Events and lines that were too long to be read. */
  readonly skipped: number;
}

export const mostEventCharacters = 1 << 20;

const lineFeed = 10;

export function createEventStream(mostCharacters = mostEventCharacters): EventStream {
  const decoder = new TextDecoder();
  let line = '';
  let isLineSkipped = false;
  let mayFollowLineFeed = false; // a CR has ended the line; an LF behind it belongs to it
  let data: string | undefined;
  let isEventSkipped = false;
  let skipped = 0;

  const addToLine = (piece: string): void => {
    if (isLineSkipped) return;
    if (line.length + piece.length <= mostCharacters) line += piece;
    else {
      line = '';
      isLineSkipped = true;
    }
  };

  const endEvent = (events: string[]): void => {
    if (isEventSkipped) skipped++;
    else if (data !== undefined) events.push(data);
    data = undefined;
    isEventSkipped = false;
  };

  const endLine = (events: string[]): void => {
    const ended = line;
    const wasSkipped = isLineSkipped;
    line = '';
    isLineSkipped = false;
    if (wasSkipped) isEventSkipped = true;
    else if (ended === '') endEvent(events);
    else if (ended.startsWith('data') && !isEventSkipped) {
      const value = dataOf(ended);
      if (value === undefined) return;
      if ((data?.length ?? 0) + value.length > mostCharacters) isEventSkipped = true;
      else data = data === undefined ? value : `${data}\n${value}`;
    }
  };

  return {
    push(bytes) {
      const text = decoder.decode(bytes, { stream: true });
      const events: string[] = [];
      let from = 0;
      if (mayFollowLineFeed && text.length > 0) {
        if (text.charCodeAt(0) === lineFeed) from = 1;
        mayFollowLineFeed = false;
      }
      // Each is looked for only when it was passed: text that has one kind alone would be searched to its end for every line.
      let nextReturn = text.indexOf('\r', from);
      let nextFeed = text.indexOf('\n', from);
      for (;;) {
        const isReturn = nextReturn >= 0 && (nextFeed < 0 || nextReturn < nextFeed);
        const end = isReturn ? nextReturn : nextFeed;
        if (end < 0) break;
        addToLine(text.slice(from, end));
        endLine(events);
        from = end + 1;
        if (isReturn && from === text.length) mayFollowLineFeed = true;
        else if (isReturn && text.charCodeAt(from) === lineFeed) from++;
        if (isReturn) nextReturn = text.indexOf('\r', from);
        if (nextFeed >= 0 && nextFeed < from) nextFeed = text.indexOf('\n', from);
      }
      addToLine(text.slice(from));
      return events;
    },
    get skipped() {
      return skipped;
    },
  };
}

/** Undefined for fields whose name only begins with data. */
function dataOf(line: string): string | undefined {
  if (line.length === 4) return '';
  if (line[4] !== ':') return undefined;
  return line.slice(line[5] === ' ' ? 6 : 5);
}
