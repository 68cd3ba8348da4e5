/**
 * A pickle is a program for a stack machine that may call any Python function, so loading one runs its author's code.
 * This machine knows no functions: it builds dicts, lists, tuples, strings and numbers, and turns calls of a few
 * known globals into descriptions of storages and tensors. Every other opcode and global is refused.
 * Memory is bounded: lengths are checked, containers, stack and memo are limited, and memoized values are shared.
 */
import { downloadAgain, quote, refuse } from '../stored-tensor.js';
import type { PickleValue } from './pickle-value.js';
import { callGlobal, isGlobal, isTuple, openStorage, requireKnownGlobal } from './pickle-value.js';

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const maximumLine = 256; // module and attribute names of globals are short
const maximumContainers = 500_000;
const maximumDepth = 1_000_000; // of the stack, and entries of the memo

export const runPickle = (bytes: Buffer, source: string): PickleValue =>
  new PickleMachine(bytes, source).run();

const mark = Symbol('mark');

/** Of the next value; each takes its operands from the bytes and from the stack. */
const opcodes: Readonly<Record<number, (machine: PickleMachine) => PickleValue>> = {
  0x4e: () => null, // NONE
  0x88: () => true, // NEWTRUE
  0x89: () => false, // NEWFALSE
  0x4a: (machine) => machine.int32(), // BININT
  0x4b: (machine) => machine.byte(), // BININT1
  0x4d: (machine) => machine.uint16(), // BININT2
  0x8a: (machine) => machine.long(machine.byte()), // LONG1
  0x47: (machine) => machine.float64(), // BINFLOAT
  0x8c: (machine) => machine.text(machine.byte()), // SHORT_BINUNICODE
  0x58: (machine) => machine.text(machine.uint32()), // BINUNICODE
  0x8d: (machine) => machine.text(machine.size64()), // BINUNICODE8
  0x7d: (machine) => machine.count(new Map()), // EMPTY_DICT
  0x5d: (machine) => machine.count([]), // EMPTY_LIST
  0x29: (machine) => machine.makeTuple([]), // EMPTY_TUPLE
  0x85: (machine) => machine.makeTuple(machine.popMany(1)), // TUPLE1
  0x86: (machine) => machine.makeTuple(machine.popMany(2)), // TUPLE2
  0x87: (machine) => machine.makeTuple(machine.popMany(3)), // TUPLE3
  0x74: (machine) => machine.makeTuple(machine.popToMark()), // TUPLE
  0x68: (machine) => machine.recall(machine.byte()), // BINGET
  0x6a: (machine) => machine.recall(machine.uint32()), // LONG_BINGET
  0x63: (machine) => machine.findGlobal([machine.line(), machine.line()]), // GLOBAL
  0x93: (machine) => machine.findGlobal(machine.popMany(2)), // STACK_GLOBAL
  0x51: (machine) => machine.count(openStorage(machine.pop(), machine.damaged)), // BINPERSID
  0x52: (machine) => machine.reduce(), // REDUCE
  0x62: (machine) => machine.build(), // BUILD
  0x61: (machine) => machine.append(machine.popMany(1)), // APPEND
  0x65: (machine) => machine.append(machine.popToMark()), // APPENDS
  0x73: (machine) => machine.setItems(machine.popMany(2)), // SETITEM
  0x75: (machine) => machine.setItems(machine.popToMark()), // SETITEMS
  0x71: (machine) => machine.memoize(machine.byte()), // BINPUT
  0x72: (machine) => machine.memoize(machine.uint32()), // LONG_BINPUT
  0x94: (machine) => machine.memoize(machine.memoSize), // MEMOIZE
};

class PickleMachine {
  private position = 0;
  private readonly stack: (PickleValue | typeof mark)[] = [];
  private readonly memo = new Map<number, PickleValue>();
  private containers = 0;

  constructor(
    private readonly bytes: Buffer,
    private readonly source: string,
  ) {}

  readonly damaged = (why: string, cause?: unknown): Error =>
    refuse(`${this.source} is not a state dict torch.save wrote: ${why}`, downloadAgain, cause);

  run(): PickleValue {
    for (;;) {
      const opcode = this.byte();
      const operation = opcodes[opcode];
      if (operation !== undefined) this.stack.push(operation(this));
      else if (opcode === 0x28) this.stack.push(mark); // MARK
      else if (opcode === 0x80) this.byte(); // PROTO
      else if (opcode === 0x95) this.size64(); // FRAME
      else if (opcode === 0x2e) return this.pop(); // STOP
      else
        throw refuse(
          `${this.source} uses pickle opcode 0x${opcode.toString(16).padStart(2, '0')} at byte ${this.position - 1}, ` +
            'which is not needed to store tensors, dicts or lists',
          'Only plain state dicts are read. Load the file where you trust it and save its state_dict as safetensors.',
        );
      if (this.stack.length > maximumDepth || this.memo.size > maximumDepth)
        throw this.damaged(`it needs more than ${maximumDepth} stack or memo entries`);
    }
  }

  byte(): number {
    return this.bytes.readUInt8(this.advance(1));
  }

  uint16(): number {
    return this.bytes.readUInt16LE(this.advance(2));
  }

  uint32(): number {
    return this.bytes.readUInt32LE(this.advance(4));
  }

  int32(): number {
    return this.bytes.readInt32LE(this.advance(4));
  }

  float64(): number {
    return this.bytes.readDoubleBE(this.advance(8));
  }

  size64(): number {
    const value = this.bytes.readBigUInt64LE(this.advance(8));
    if (value <= BigInt(this.bytes.byteLength)) return Number(value);
    throw this.damaged(`a length of ${value.toString()} bytes does not fit the pickle`);
  }

  /** Two's complement; refuses what a number cannot hold exactly. */
  long(size: number): number {
    if (size === 0) return 0;
    if (size > 8) throw this.damaged(`an integer of ${size} bytes is larger than any size of a tensor`);
    const start = this.advance(size);
    let value = 0n;
    for (let index = size - 1; index >= 0; index -= 1)
      value = (value << 8n) | BigInt(this.bytes.readUInt8(start + index));
    const number = Number(BigInt.asIntN(size * 8, value));
    if (!Number.isSafeInteger(number)) throw this.damaged(`the integer ${number} is too large`);
    return number;
  }

  text(size: number): string {
    const start = this.advance(size);
    try {
      return utf8.decode(this.bytes.subarray(start, start + size));
    } catch (cause) {
      throw this.damaged(`the string at byte ${start} is not UTF-8`, cause);
    }
  }

  line(): string {
    const start = this.position;
    const end = this.bytes.indexOf(0x0a, start);
    if (end < 0 || end - start > maximumLine) {
      const opening = this.bytes.toString('latin1', start, start + 40);
      throw this.damaged(`the global name ${quote(opening)} at byte ${start} does not end`);
    }
    this.position = end + 1;
    return this.bytes.toString('utf8', start, end);
  }

  findGlobal([module, name]: readonly PickleValue[]): PickleValue {
    if (typeof module !== 'string' || typeof name !== 'string') throw this.damaged('a global has no name');
    return this.count({ kind: 'global', name: requireKnownGlobal(`${module}.${name}`, this.source) });
  }

  reduce(): PickleValue {
    const [callee, parameters] = this.popMany(2);
    if (!isGlobal(callee) || !isTuple(parameters)) throw this.damaged('it calls something that is no global');
    const value = callGlobal(callee.name, parameters.items, this.damaged);
    // A parameter is its tensor, which was already counted.
    return value === parameters.items[0] ? value : this.count(value);
  }

  /** A module's state_dict() sets `_metadata` (version numbers) on its OrderedDict. Nothing else may be set. */
  build(): PickleValue {
    const [target, state] = this.popMany(2);
    if (target instanceof Map && state instanceof Map && state.size === 1 && state.has('_metadata'))
      return target;
    throw this.damaged('it sets attributes of an object, expected only _metadata of a state dict');
  }

  append(items: readonly PickleValue[]): PickleValue {
    const list = this.stack.pop();
    if (!Array.isArray(list)) throw this.damaged('it appends to something that is no list');
    for (const item of items) list.push(item);
    return list;
  }

  setItems(items: readonly PickleValue[]): PickleValue {
    const dict = this.stack.pop();
    if (!(dict instanceof Map) || items.length % 2 !== 0)
      throw this.damaged('it fills something that is no dict');
    for (let index = 0; index < items.length; index += 2) {
      const key = items[index];
      if (typeof key !== 'string' && typeof key !== 'number')
        throw this.damaged('a dict key is neither a string nor a number');
      if (dict.has(key)) throw this.damaged(`a dict has the key ${quote(String(key))} twice`);
      dict.set(key, items[index + 1]!);
    }
    return dict;
  }

  get memoSize(): number {
    return this.memo.size;
  }

  memoize(index: number): PickleValue {
    const top = this.pop();
    this.memo.set(index, top);
    return top;
  }

  recall(index: number): PickleValue {
    const value = this.memo.get(index);
    if (value === undefined) throw this.damaged(`memo entry ${index} was never stored`);
    return value;
  }

  makeTuple(items: readonly PickleValue[]): PickleValue {
    return this.count({ kind: 'tuple', items });
  }

  count<Value extends PickleValue>(value: Value): Value {
    this.containers += 1;
    if (this.containers > maximumContainers)
      throw this.damaged(`it holds more than ${maximumContainers} objects`);
    return value;
  }

  pop(): PickleValue {
    const value = this.stack.pop();
    if (value === undefined || value === mark) throw this.damaged('its stack is empty too early');
    return value;
  }

  popMany(count: number): PickleValue[] {
    return Array.from({ length: count }, () => this.pop()).reverse();
  }

  popToMark(): PickleValue[] {
    const place = this.stack.lastIndexOf(mark);
    if (place < 0) throw this.damaged('a mark is missing');
    const values = this.stack.splice(place + 1);
    this.stack.pop();
    return values as PickleValue[];
  }

  private advance(size: number): number {
    const start = this.position;
    const { byteLength } = this.bytes;
    if (size > byteLength - start)
      throw this.damaged(`it ends at byte ${byteLength}, but ${size} bytes from ${start} on are needed`);
    this.position = start + size;
    return start;
  }
}
