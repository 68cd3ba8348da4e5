/**
 * Server-sent events (WHATWG HTML, section 9.2.6): the data of complete events, in any cut of the bytes. Longer lines and
 * events are skipped, so memory is bounded.
 */
export interface EventStream {
  /** Returns the data of the events that these bytes complete. */
  push(bytes: Uint8Array): readonly string[];
}

const defaultCharacters = 1 << 20;

export function createEventStream(maxCharacters = defaultCharacters): EventStream {
  const decoder = new TextDecoder();
  let rest = ''; // an unfinished line
  let endsWithReturn = false; // a line feed after it belongs to the same line end
  let data: string | undefined;
  let isSkipped = false;

  const endLine = (line: string, events: string[]): void => {
    if (line === '') {
      if (!isSkipped && data !== undefined) events.push(data);
      data = undefined;
      isSkipped = false;
      return;
    }
    const value = line.length > maxCharacters ? undefined : dataOf(line);
    if (line.length > maxCharacters || (data?.length ?? 0) + (value?.length ?? 0) > maxCharacters)
      isSkipped = true;
    else if (value !== undefined) data = data === undefined ? value : `${data}\n${value}`;
  };

  return {
    push(bytes) {
      let text = decoder.decode(bytes, { stream: true });
      if (text === '') return [];
      if (endsWithReturn && text.startsWith('\n')) text = text.slice(1);
      endsWithReturn = text.endsWith('\r');
      const lines = text.split(text.includes('\r') ? /\r\n?|\n/ : '\n');
      lines[0] = rest + lines[0]!;
      rest = lines.pop()!.slice(0, maxCharacters + 1); // enough to be too long
      const events: string[] = [];
      for (const line of lines) endLine(line, events);
      return events;
    },
  };
}

/** Undefined for other fields, also those whose name starts with "data". */
function dataOf(line: string): string | undefined {
  if (line === 'data') return '';
  return line.startsWith('data:') ? line.slice(line[5] === ' ' ? 6 : 5) : undefined;
}
