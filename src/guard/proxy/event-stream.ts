/**
 * Server-sent events (WHATWG HTML, section 9.2.6): the data of complete events, in any cut of the bytes. Longer lines and
 * events are skipped, so memory is bounded.
 */
export interface EventStream {
  /** Returns the data of the events that these bytes complete. */
  push(bytes: Uint8Array): readonly string[];
  /** Events that were too long. */
  readonly skipped: number;
}

export const maxEventCharacters = 1 << 20;

const lineFeed = 10;

export function createEventStream(maxCharacters = maxEventCharacters): EventStream {
  const decoder = new TextDecoder();
  let line = '';
  let isLineSkipped = false;
  let mayFollowLineFeed = false; // a CR ended the line; an LF after it belongs to it
  let data: string | undefined;
  let isEventSkipped = false;
  let skipped = 0;

  const addToLine = (piece: string): void => {
    if (isLineSkipped) return;
    if (line.length + piece.length <= maxCharacters) line += piece;
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
      if ((data?.length ?? 0) + value.length > maxCharacters) isEventSkipped = true;
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
      // Searched again only when passed: text with one kind of line end would be searched to its end for every line.
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

/** Undefined for other fields whose name starts with "data". */
function dataOf(line: string): string | undefined {
  if (line.length === 4) return '';
  if (line[4] !== ':') return undefined;
  return line.slice(line[5] === ' ' ? 6 : 5);
}
