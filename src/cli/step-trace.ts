/** What `generate --trace` prints of each step: the draft, what was accepted of it, and times. */
import type { StepTrace } from '../decode/request.js';
import type { Tokenizer } from '../text/tokenizer/tokenizer.js';

const columns = 80;

/**
 * One line for each path of the tree; a path begins below the token that it shares with the one before. `+` is
 * accepted, `-` is not, and `~` was drawn: its trial has a law.
 */
export function formatStep(step: number, trace: StepTrace, tokenizer: Pick<Tokenizer, 'tokenText'>): string {
  const { tree, verdict, draftMs, readMs, judgeMs } = trace;
  const show = (id: number): string => JSON.stringify(tokenizer.tokenText(id));
  const accepted = new Set(verdict.path);
  const drawn = drawnNodes(trace);
  const lines: string[] = [];
  /** Appends the paths below a node, the first of them to the last line. */
  const visit = (node: number): void => {
    const children = Array.from(tree.parents.keys()).filter((child) => tree.parents[child] === node);
    children.forEach((child, place) => {
      if (node === 0 || place > 0) lines.push('  '.repeat(tree.depths[child]!).slice(1));
      const mark = `${accepted.has(child) ? '+' : '-'}${show(tree.tokens[child]!)}${drawn.has(child) ? '~' : ''}`;
      lines.push(`${lines.pop()!} ${mark}`);
      visit(child);
    });
  };
  visit(0);
  const drafted = tree.tokens.length - 1;
  const verdictText = drafted === 0 ? 'no draft' : `${accepted.size} of ${drafted}`;
  const times = `draft ${draftMs.toFixed(1)} read ${readMs.toFixed(1)} judge ${judgeMs.toFixed(1)} ms`;
  const header = `step ${step} ${show(tree.tokens[0]!)}: ${verdictText}, then ${show(verdict.nextToken)} · ${times}`;
  return [header, ...lines].map((line) => `${cut(line)}\n`).join('');
}

/** One JSON object. Node 0 is the newest token of the text. */
export function serializeStep(
  id: string | undefined,
  step: number,
  trace: StepTrace,
  tokenizer: Pick<Tokenizer, 'tokenText'>,
): string {
  const { tree, verdict, draftMs, readMs, judgeMs } = trace;
  const tokenIds = Array.from(tree.tokens);
  const line = {
    ...{ id, step, tokenIds, texts: tokenIds.map((token) => tokenizer.tokenText(token)) },
    ...{ parents: Array.from(tree.parents), drawn: [...drawnNodes(trace)] },
    ...{ accepted: verdict.path, nextTokenId: verdict.nextToken, draftMs, readMs, judgeMs },
  };
  return `${JSON.stringify(line)}\n`;
}

const drawnNodes = ({ tree: { trials } }: StepTrace): ReadonlySet<number> =>
  new Set(trials.flat().flatMap(({ node, law }) => (law === undefined ? [] : [node])));

function cut(line: string): string {
  const letters = Array.from(line);
  return letters.length <= columns ? line : `${letters.slice(0, columns - 1).join('')}…`;
}
