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

/** Reads a pickle's operands; every length is checked against the remaining bytes. */
class PickleCursor {
  position = 0;

  constructor(
    private readonly bytes: Buffer,
    private readonly source: string,
  ) {}

  byte(): number {
    return this.bytes.readUInt8(this.#advance(1));
  }

  uint16(): number {
    return this.bytes.readUInt16LE(this.#advance(2));
  }

  uint32(): number {
    return this.bytes.readUInt32LE(this.#advance(4));
  }

  int32(): number {
    return this.bytes.readInt32LE(this.#advance(4));
  }

  float64(): number {
    return this.bytes.readDoubleBE(this.#advance(8));
  }

  size64(): number {
    const value = this.bytes.readBigUInt64LE(this.#advance(8));
    if (value > BigInt(this.bytes.byteLength)) {
      throw this.#refuse(`a length of ${value.toString()} bytes does not fit the pickle`);
    }
    return Number(value);
  }

  /** Two's complement; refuses what a number cannot hold exactly. */
  long(size: number): number {
    if (size === 0) return 0;
    if (size > 8) throw this.#refuse(`an integer of ${size} bytes is larger than any size of a tensor`);
    const start = this.#advance(size);
    let value = 0n;
    for (let index = size - 1; index >= 0; index -= 1) {
      value = (value << 8n) | BigInt(this.bytes.readUInt8(start + index));
    }
    const number = Number(BigInt.asIntN(size * 8, value));
    if (!Number.isSafeInteger(number)) throw this.#refuse(`the integer ${number} is too large`);
    return number;
  }

  text(size: number): string {
    const start = this.#advance(size);
    try {
      return utf8.decode(this.bytes.subarray(start, start + size));
    } catch (cause) {
      throw this.#refuse(`the string at byte ${start} is not UTF-8`, cause);
    }
  }

  line(): string {
    const start = this.position;
    const end = this.bytes.indexOf(0x0a, start);
    if (end < 0 || end - start > maximumLine) {
      const opening = this.bytes.toString('latin1', start, start + 40);
      throw this.#refuse(`the global name ${quote(opening)} at byte ${start} does not end`);
    }
    this.position = end + 1;
    return this.bytes.toString('utf8', start, end);
  }

  #advance(size: number): number {
    const start = this.position;
    if (size > this.bytes.byteLength - start) {
      throw this.#refuse(
        `it ends at byte ${this.bytes.byteLength}, but ${size} bytes from ${start} on are needed`,
      );
    }
    this.position = start + size;
    return start;
  }

  #refuse(why: string, cause?: unknown): Error {
    return refuse(`${this.source} is not a state dict torch.save wrote: ${why}`, downloadAgain, cause);
  }
}

const maximumContainers = 500_000;
const maximumDepth = 1_000_000; // of the stack, and entries of the memo

export const runPickle = (bytes: Buffer, source: string): PickleValue =>
  new PickleMachine(new PickleCursor(bytes, source), source).run();

const mark = Symbol('mark');

class PickleMachine {
  readonly #stack: (PickleValue | typeof mark)[] = [];
  readonly #memo = new Map<number, PickleValue>();
  readonly #damaged = (why: string): Error =>
    refuse(`${this.source} is not a state dict torch.save wrote: ${why}`, downloadAgain);
  #containers = 0;

  constructor(
    private readonly cursor: PickleCursor,
    private readonly source: string,
  ) {}

  run(): PickleValue {
    for (;;) {
      const opcode = this.cursor.byte();
      if (opcode === 0x2e) return this.#pop(); // STOP
      const value = this.#evaluate(opcode);
      if (value === undefined) this.#execute(opcode);
      else this.#stack.push(value);
      if (this.#stack.length > maximumDepth || this.#memo.size > maximumDepth) {
        throw this.#damaged(`it needs more than ${maximumDepth} stack or memo entries`);
      }
    }
  }

  #evaluate(opcode: number): PickleValue | undefined {
    const cursor = this.cursor;
    switch (opcode) {
      case 0x4e: // NONE
        return null;
      case 0x88: // NEWTRUE
        return true;
      case 0x89: // NEWFALSE
        return false;
      case 0x4a: // BININT
        return cursor.int32();
      case 0x4b: // BININT1
        return cursor.byte();
      case 0x4d: // BININT2
        return cursor.uint16();
      case 0x8a: // LONG1
        return cursor.long(cursor.byte());
      case 0x47: // BINFLOAT
        return cursor.float64();
      case 0x8c: // SHORT_BINUNICODE
        return cursor.text(cursor.byte());
      case 0x58: // BINUNICODE
        return cursor.text(cursor.uint32());
      case 0x8d: // BINUNICODE8
        return cursor.text(cursor.size64());
      case 0x7d: // EMPTY_DICT
        return this.#count(new Map());
      case 0x5d: // EMPTY_LIST
        return this.#count([]);
      case 0x29: // EMPTY_TUPLE
        return this.#makeTuple([]);
      case 0x85: // TUPLE1
        return this.#makeTuple(this.#popMany(1));
      case 0x86: // TUPLE2
        return this.#makeTuple(this.#popMany(2));
      case 0x87: // TUPLE3
        return this.#makeTuple(this.#popMany(3));
      case 0x74: // TUPLE
        return this.#makeTuple(this.#popToMark());
      case 0x68: // BINGET
        return this.#recall(cursor.byte());
      case 0x6a: // LONG_BINGET
        return this.#recall(cursor.uint32());
      case 0x63: // GLOBAL
        return this.#findGlobal([cursor.line(), cursor.line()]);
      case 0x93: // STACK_GLOBAL
        return this.#findGlobal(this.#popMany(2));
      case 0x51: // BINPERSID
        return this.#count(openStorage(this.#pop(), this.#damaged));
      case 0x52: // REDUCE
        return this.#reduce();
      case 0x62: // BUILD
        return this.#build();
      default:
        return undefined;
    }
  }

  #execute(opcode: number): void {
    const cursor = this.cursor;
    switch (opcode) {
      case 0x80: // PROTO
        cursor.byte();
        break;
      case 0x95: // FRAME
        cursor.size64();
        break;
      case 0x28: // MARK
        this.#stack.push(mark);
        break;
      case 0x61: // APPEND
        this.#append(this.#popMany(1));
        break;
      case 0x65: // APPENDS
        this.#append(this.#popToMark());
        break;
      case 0x73: // SETITEM
        this.#setItems(this.#popMany(2));
        break;
      case 0x75: // SETITEMS
        this.#setItems(this.#popToMark());
        break;
      case 0x71: // BINPUT
        this.#memoise(cursor.byte());
        break;
      case 0x72: // LONG_BINPUT
        this.#memoise(cursor.uint32());
        break;
      case 0x94: // MEMOIZE
        this.#memoise(this.#memo.size);
        break;
      default:
        throw refuse(
          `${this.source} uses pickle opcode 0x${opcode.toString(16).padStart(2, '0')} at byte ${cursor.position - 1}, ` +
            'which is not needed to store tensors, dicts or lists',
          'Only plain state dicts are read. Load the file where you trust it and save its state_dict as safetensors.',
        );
    }
  }

  #findGlobal([module, name]: readonly PickleValue[]): PickleValue {
    if (typeof module !== 'string' || typeof name !== 'string') throw this.#damaged('a global has no name');
    return this.#count({ kind: 'global', name: requireKnownGlobal(`${module}.${name}`, this.source) });
  }

  #reduce(): PickleValue {
    const [callee, parameters] = this.#popMany(2);
    if (!isGlobal(callee) || !isTuple(parameters))
      throw this.#damaged('it calls something that is no global');
    const value = callGlobal(callee.name, parameters.items, this.#damaged);
    // A parameter is its tensor, which was already counted.
    return value === parameters.items[0] ? value : this.#count(value);
  }

  /** A module's state_dict() sets `_metadata` (version numbers) on its OrderedDict. Nothing else may be set. */
  #build(): PickleValue {
    const [target, state] = this.#popMany(2);
    if (!(target instanceof Map) || !(state instanceof Map) || state.size !== 1 || !state.has('_metadata')) {
      throw this.#damaged('it sets attributes of an object, expected only _metadata of a state dict');
    }
    return target;
  }

  #append(items: readonly PickleValue[]): void {
    const list = this.#stack.at(-1);
    if (!Array.isArray(list)) throw this.#damaged('it appends to something that is no list');
    for (const item of items) list.push(item);
  }

  #setItems(items: readonly PickleValue[]): void {
    const dict = this.#stack.at(-1);
    if (!(dict instanceof Map) || items.length % 2 !== 0)
      throw this.#damaged('it fills something that is no dict');
    for (let index = 0; index < items.length; index += 2) {
      const key = items[index];
      if (typeof key !== 'string' && typeof key !== 'number') {
        throw this.#damaged('a dict key is neither a string nor a number');
      }
      if (dict.has(key)) throw this.#damaged(`a dict has the key ${quote(String(key))} twice`);
      dict.set(key, items[index + 1]!);
    }
  }

  #memoise(index: number): void {
    const top = this.#pop();
    this.#memo.set(index, top);
    this.#stack.push(top);
  }

  #recall(index: number): PickleValue {
    const value = this.#memo.get(index);
    if (value === undefined) throw this.#damaged(`memo entry ${index} was never stored`);
    return value;
  }

  #makeTuple(items: readonly PickleValue[]): PickleValue {
    return this.#count({ kind: 'tuple', items });
  }

  #pop(): PickleValue {
    const value = this.#stack.pop();
    if (value === undefined || value === mark) throw this.#damaged('its stack is empty too early');
    return value;
  }

  #popMany(count: number): PickleValue[] {
    const values: PickleValue[] = [];
    for (let index = 0; index < count; index += 1) values.push(this.#pop());
    return values.reverse();
  }

  #popToMark(): PickleValue[] {
    const values: PickleValue[] = [];
    for (;;) {
      const value = this.#stack.pop();
      if (value === mark) return values.reverse();
      if (value === undefined) throw this.#damaged('a mark is missing');
      values.push(value);
    }
  }

  #count<Value extends PickleValue>(value: Value): Value {
    this.#containers += 1;
    if (this.#containers > maximumContainers)
      throw this.#damaged(`it holds more than ${maximumContainers} objects`);
    return value;
  }
}
