/**
 * Runs a chat template, which is untrusted code: every operation is charged to a budget before it runs
 * (template-budget.ts). The library evaluates operands and applies the operation in one method. Here operands are
 * evaluated first, the operation is charged by their sizes, and the library gets them as constants.
 */
import type { Template } from '@huggingface/jinja';
import * as jinja from '@huggingface/jinja';
import type { Value } from './template-budget.js';
import {
  itemUnits,
  iterationUnits,
  maxListLength,
  maxTextLength,
  TemplateBudget,
  valueUnits,
} from './template-budget.js';
import type { Call, Cost } from './template-costs.js';
import {
  chargeOperator,
  countOf,
  filterCosts,
  lengthOf,
  methodCosts,
  namespaceCost,
} from './template-costs.js';

/** The parts of the template library that its declarations keep to themselves. */
interface Scope {
  set(name: string, value: unknown): unknown;
}

interface Node {
  readonly type: string;
  readonly value?: unknown;
  readonly operator?: { readonly value: string } | undefined;
  readonly left?: Node | undefined;
  readonly right?: Node | undefined;
  readonly object?: Node | undefined;
  readonly property?: Node | undefined;
  readonly computed?: boolean | undefined;
  readonly operand?: Node | undefined;
  readonly callee?: Node | undefined;
  readonly args?: readonly Node[] | undefined;
  readonly iterable?: Node | undefined;
  readonly lhs?: Node | undefined;
  readonly body?: readonly Node[] | undefined;
}

/** An operand that was evaluated already; the library does not know it. */
interface Constant extends Node {
  readonly type: 'Constant';
  readonly constant: Value;
}

type Arguments = readonly [positional: readonly Value[], named: ReadonlyMap<string, Value>];

/** The package's declarations name files without an extension, which ES modules do not find. */
const library = jinja as unknown as {
  readonly Environment: new () => Scope;
  readonly Interpreter: new (scope: Scope) => {
    run(program: unknown): Value;
    evaluate(node: Node | undefined, scope: Scope): Value | undefined;
    evaluateIdentifier(node: Node, scope: Scope): Value;
    evaluateBinaryExpression(node: Node, scope: Scope): Value;
    evaluateMemberExpression(node: Node, scope: Scope): Value;
    evaluateSliceExpression(object: Value, node: Node, scope: Scope): Value;
    evaluateTestExpression(node: Node, scope: Scope): Value;
    evaluateCallExpression(node: Node, scope: Scope): Value;
    evaluateArguments(nodes: readonly Node[], scope: Scope): Arguments;
    applyFilter(operand: Value, filter: Node, scope: Scope): Value;
    evaluateBlock(statements: readonly Node[], scope: Scope): Value;
    evaluateFor(node: Node, scope: Scope): Value;
    evaluateMacro(node: Node, scope: Scope): Value;
    evaluateCallStatement(node: Node, scope: Scope): Value;
  };
};

/** V8 hashes long keys by their length alone, so long keys of one length are compared with each other. */
const maxKeyLength = 1000;

type FunctionBody = (given: readonly Value[], scope: Scope) => Value;

export const createScope = (): Scope => new library.Environment();

export function interpret({ parsed }: Template, scope: Scope): string {
  try {
    return String(new BoundedInterpreter(scope).run(parsed).value);
  } catch (cause) {
    if (cause instanceof RangeError && cause.message.includes('call stack'))
      throw new Error('it nests too deeply', { cause });
    throw cause;
  }
}

const constant = (value: Value): Constant => ({ type: 'Constant', constant: value });

class BoundedInterpreter extends library.Interpreter {
  private readonly budget = new TemplateBudget();
  private readonly sizes = new WeakMap<Node, number>();

  override evaluate(node: Node | undefined, scope: Scope): Value {
    if (node?.type === 'Constant') return (node as Constant).constant;
    this.budget.step();
    // The library returns undefined for the first item of an empty list.
    const value = super.evaluate(node, scope) ?? super.evaluate(undefined, scope)!;
    if (lengthOf(value) > maxTextLength) this.budget.makeText(lengthOf(value));
    if (countOf(value) > maxListLength) this.budget.copyList(countOf(value));
    const made = node?.type === 'ObjectLiteral' && value.value instanceof Map ? value.value : new Map();
    for (const key of (made as ReadonlyMap<string, Value>).keys())
      if (key.length > maxKeyLength)
        throw new Error(`it makes a key of ${key.length} characters; at most ${maxKeyLength} are allowed`);
    return value;
  }

  override evaluateBinaryExpression(node: Node, scope: Scope): Value {
    const operator = node.operator?.value ?? '';
    if (operator === 'and' || operator === 'or') return super.evaluateBinaryExpression(node, scope);
    const left = this.evaluate(node.left, scope);
    const right = this.evaluate(node.right, scope);
    chargeOperator(this.budget, operator, left, right);
    const known = { ...node, left: constant(left), right: constant(right) };
    return super.evaluateBinaryExpression(known, scope);
  }

  override evaluateIdentifier(node: Node, scope: Scope): Value {
    const value = super.evaluateIdentifier(node, scope);
    const isNamespace = node.value === 'namespace' && value.type === 'FunctionValue';
    return isNamespace ? this.chargeCalls(value, value, namespaceCost) : value;
  }

  override evaluateMemberExpression(node: Node, scope: Scope): Value {
    const object = this.evaluate(node.object, scope);
    const isSlice = node.property?.type === 'SliceExpression';
    const property = node.computed === true && !isSlice ? this.evaluate(node.property, scope) : undefined;
    const known = {
      type: node.type,
      object: constant(object),
      computed: node.computed ?? false,
      property: property === undefined ? node.property! : constant(property),
    };
    this.budget.spend(lengthOf(property));
    if (typeof property?.value === 'number') this.budget.spend(lengthOf(object));
    const member = super.evaluateMemberExpression(known, scope);
    if (member.type !== 'FunctionValue') return forgetMethods(object, member);
    const name = String(property?.value ?? node.property?.value);
    const isMethod = (object as Value & { readonly builtins?: Methods }).builtins?.get(name) === member;
    forgetMethods(object, member);
    if (!isMethod) return member;
    const cost = methodCosts.get(name);
    if (cost === undefined)
      throw new Error(`it calls the method ${name.slice(0, 40)}, which is not supported`);
    return this.chargeCalls(member, object, cost);
  }

  /** A copy of a function that charges each call. */
  private chargeCalls(member: Value, operand: Value, cost: Cost): Value {
    const call = member.value as FunctionBody;
    const value = (given: readonly Value[], from: Scope): Value => {
      const last = given.at(-1);
      const named = last?.type === 'KeywordArgumentsValue' ? (last.value as Call['named']) : undefined;
      const positional = named === undefined ? given : given.slice(0, -1);
      cost(this.budget, { operand, positional, named: named ?? new Map<string, Value>() });
      return call(given, from);
    };
    return Object.assign(Object.create(Object.getPrototypeOf(member) as object) as Value, member, { value });
  }

  override evaluateSliceExpression(object: Value, node: Node, scope: Scope): Value {
    this.budget.spend(lengthOf(object) + countOf(object), itemUnits);
    return super.evaluateSliceExpression(object, node, scope);
  }

  override evaluateTestExpression(node: Node, scope: Scope): Value {
    const operand = this.evaluate(node.operand, scope);
    this.budget.spend(lengthOf(operand));
    return super.evaluateTestExpression({ ...node, operand: constant(operand) }, scope);
  }

  /** Each function limits its own result; here it is charged. */
  override evaluateCallExpression(node: Node, scope: Scope): Value {
    const made = super.evaluateCallExpression(node, scope);
    this.budget.spend(countOf(made), valueUnits);
    return made;
  }

  override evaluateArguments(nodes: readonly Node[], scope: Scope): Arguments {
    const given = super.evaluateArguments(nodes, scope);
    this.budget.copyList(given[0].length + given[1].size);
    return given;
  }

  override applyFilter(operand: Value, filter: Node, scope: Scope): Value {
    const name = String(filter.callee?.value ?? filter.value);
    const cost = filterCosts.get(name);
    if (cost === undefined)
      throw new Error(`it uses the filter ${name.slice(0, 40)}, which is not supported`);
    const [positional, named] = this.evaluateArguments(filter.args ?? [], scope);
    cost(this.budget, { operand, positional, named });
    const isLiteral = name === 'selectattr' || name === 'rejectattr'; // takes nothing but literals
    const known =
      isLiteral || filter.args === undefined ? filter : { ...filter, args: toNodes(positional, named) };
    return forgetMethods(operand, super.applyFilter(operand, known, scope));
  }

  /** As the library does it, but each value is charged before it is written. */
  override evaluateBlock(statements: readonly Node[], scope: Scope): Value {
    let text = '';
    for (const statement of statements) {
      const value = this.evaluate(statement, scope);
      if (value.type === 'NullValue' || value.type === 'UndefinedValue') continue;
      this.budget.joinTexts(text.length, this.budget.write(value));
      // oxlint-disable-next-line typescript/no-base-to-string -- the library's values write themselves
      text += String(value);
    }
    return this.evaluate({ type: 'StringLiteral', value: text }, scope);
  }

  override evaluateFor(node: Node, scope: Scope): Value {
    const isSelect = node.iterable?.type === 'SelectExpression';
    const iterable = this.evaluate(isSelect ? node.iterable.lhs : node.iterable, scope);
    this.budget.spend(countOf(iterable), iterationUnits);
    const known = isSelect ? { ...node.iterable, lhs: constant(iterable) } : constant(iterable);
    return super.evaluateFor({ ...node, iterable: known }, scope);
  }

  /** The library walks the whole body at each definition. */
  override evaluateMacro(node: Node, scope: Scope): Value {
    this.budget.spend(4 * this.sizeOf(node), itemUnits);
    return super.evaluateMacro(node, scope);
  }

  override evaluateCallStatement(node: Node, scope: Scope): Value {
    this.budget.spend(4 * this.sizeOf(node), itemUnits);
    return super.evaluateCallStatement(node, scope);
  }

  private sizeOf(node: Node): number {
    const known = this.sizes.get(node);
    if (known !== undefined) return known;
    const size = countNodes(node.body);
    this.sizes.set(node, size);
    return size;
  }
}

function toNodes(positional: readonly Value[], named: ReadonlyMap<string, Value>): readonly Node[] {
  const keywords = [...named].map(([key, value]) => ({
    type: 'KeywordArgumentExpression',
    key: { value: key },
    value: constant(value),
  }));
  return [...positional.map(constant), ...keywords];
}

function countNodes(part: unknown): number {
  if (typeof part !== 'object' || part === null) return 0;
  const inner = part instanceof Map ? [...part].flat() : Object.values(part);
  return inner.reduce<number>((sum, each) => sum + countNodes(each), 1);
}

type Methods = ReadonlyMap<string, Value>;

/** The library keeps two kilobytes of methods with every text on which a method was called. */
function forgetMethods(object: Value, member: Value): Value {
  (object as { _builtins?: Methods | undefined })._builtins = undefined;
  return member;
}
