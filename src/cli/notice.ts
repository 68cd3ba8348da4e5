import { asOneLine } from './clean-text.js';
import type { Terminal } from './terminal.js';
import { colorsFor } from './terminal.js';

/** Something the reader should know that is no failure: a line on stderr. */
export function createNotice(terminal: Terminal): (message: string) => void {
  const { stderr } = terminal;
  return (message) => {
    stderr.write(`${colorsFor(stderr, terminal).yellow('note:')}  ${asOneLine(message)}\n`);
  };
}
