/**
 * Runs a chat template, which is a stranger's program, within bounds: of its size before it is parsed, and while it runs
 * of steps, of time, and of the size of every value. The library evaluates each part of a template through one method,
 * so that a look at each of its results bounds everything but single calls that make much out of little (`replace`
 * and its like): those are looked at before they run.
 */
import * as jinja from '@huggingface/jinja';

/** The largest published templates have some 20,000 characters. */
const longestSource = 256 * 1024;
/** The library's lexer takes time by the square of a run of blanks. */
const longestBlank = 1000;
const mostSteps = 2_000_000;
const mostMs = 2000;
const longestText = 2_000_000;
const longestList = 100_000;
/** Of what a call puts in place of each match, between items or before lines. */
const longestInsertion = 64;

export interface Scope {
  set(name: string, value: unknown): unknown;
}

interface Value {
  readonly type: string;
  readonly value: unknown;
}

interface Node {
  readonly type: string;
  readonly value?: unknown;
  readonly callee?: Node;
  readonly property?: Node;
  readonly computed?: boolean;
}

type Arguments = readonly [positional: readonly Value[], named: ReadonlyMap<string, Value>];

/** The package's declarations name files without an extension, which ES modules do not find. */
const library = jinja as unknown as {
  readonly Environment: new () => Scope;
  readonly Interpreter: new (scope: Scope) => {
    run(program: unknown): Value;
    evaluate(node: Node | undefined, scope: Scope): Value;
    evaluateMemberExpression(node: Node, scope: Scope): Value;
    evaluateArguments(nodes: readonly Node[], scope: Scope): Arguments;
    applyFilter(operand: Value, filter: Node, scope: Scope): Value;
  };
};

export const createScope = (): Scope => new library.Environment();

export function parseTemplate(source: string): jinja.Template {
  if (source.length > longestSource)
    throw new Error(`it has ${source.length} characters; at most ${longestSource} are read`);
  const blank = new RegExp(`\\s{${longestBlank + 1}}`).exec(source);
  if (blank !== null)
    throw new Error(`it has more than ${longestBlank} blanks in a row, at character ${blank.index + 1}`);
  try {
    return new jinja.Template(source);
  } catch (cause) {
    // The library reads on behind the last token, and nests by recursion.
    if (cause instanceof TypeError) throw new Error('it ends where more was expected', { cause });
    if (cause instanceof RangeError) throw new Error('it nests too deeply', { cause });
    throw cause;
  }
}

export function interpret({ parsed }: jinja.Template, scope: Scope): string {
  return String(new BoundedInterpreter(scope).run(parsed).value);
}

/** Calls whose result can be far larger than what they are given. */
const amplifying = new Set(['replace', 'join', 'indent', 'center', 'ljust', 'rjust', 'format']);
/** Filters that write out all that a value holds. */
const writing = new Set([...amplifying, 'tojson', 'string', 'list', 'map', 'items']);

class BoundedInterpreter extends library.Interpreter {
  private steps = 0;
  private readonly endMs = performance.now() + mostMs;
  private readonly startCpu = process.cpuUsage();
  private isAmplifying = false;

  override evaluate(node: Node | undefined, scope: Scope): Value {
    this.steps += 1;
    if (this.steps > mostSteps) throw new Error(`it took more than ${mostSteps} steps`);
    if (performance.now() > this.endMs && this.cpuMs() > mostMs)
      throw new Error(`it took more than ${mostMs / 1000} seconds`);
    const value = super.evaluate(node, scope);
    requireSmall(value);
    return value;
  }

  /** A process that waits for a busy machine has used time, but no CPU time. */
  private cpuMs(): number {
    const { user, system } = process.cpuUsage(this.startCpu);
    return (user + system) / 1000;
  }

  /** Methods: of texts, `replace` alone makes much out of little; a computed name may be that one. */
  override evaluateMemberExpression(node: Node, scope: Scope): Value {
    const member = super.evaluateMemberExpression(node, scope);
    const isHarmless = node.computed !== true && !amplifying.has(String(node.property?.value));
    if (member.type !== 'FunctionValue' || isHarmless) return member;
    const call = member.value as (given: readonly Value[], from: Scope) => Value;
    const value = (given: readonly Value[], from: Scope): Value => {
      given.forEach(requireShort);
      return call(given, from);
    };
    // A copy, because the library hands the same function out again.
    return Object.assign(Object.create(Object.getPrototypeOf(member) as object) as Value, member, { value });
  }

  override applyFilter(operand: Value, filter: Node, scope: Scope): Value {
    const name = String(filter.callee?.value ?? filter.value);
    if (writing.has(name)) requireWritable(operand);
    const before = this.isAmplifying;
    this.isAmplifying = amplifying.has(name);
    try {
      return super.applyFilter(operand, filter, scope);
    } finally {
      this.isAmplifying = before;
    }
  }

  override evaluateArguments(nodes: readonly Node[], scope: Scope): Arguments {
    const isAmplifying = this.isAmplifying;
    this.isAmplifying = false;
    const given = super.evaluateArguments(nodes, scope);
    if (isAmplifying) [...given[0], ...given[1].values()].forEach(requireShort);
    return given;
  }
}

function requireSmall({ value }: Value): void {
  if (typeof value === 'string' && value.length > longestText)
    throw new Error(`it made a text of ${value.length} characters; at most ${longestText} are allowed`);
  if (Array.isArray(value) && value.length > longestList)
    throw new Error(`it made a list of ${value.length} items; at most ${longestList} are allowed`);
}

function requireShort({ value }: Value): void {
  const size = typeof value === 'string' ? value.length : typeof value === 'number' ? Math.abs(value) : 0;
  if (size > longestInsertion)
    throw new Error(`it inserts ${size} characters many times over; at most ${longestInsertion} are allowed`);
}

/** Everything that a value holds, counted as often as it would be written. */
function requireWritable(value: Value): void {
  let left = longestText;
  const count = ({ value: held }: Value): void => {
    left -= typeof held === 'string' ? held.length + 1 : 1;
    if (left < 0) throw new Error(`it writes out more than ${longestText} characters at once`);
    if (Array.isArray(held)) (held as Value[]).forEach(count);
    else if (held instanceof Map) for (const item of (held as Map<string, Value>).values()) count(item);
  };
  count(value);
}
