/** Thrift's compact protocol, in which Parquet files describe themselves: a record is a list of numbered fields. */
import type { ByteReader } from './byte-reader.js';

export type ThriftRecord = ReadonlyMap<number, ThriftValue>;
type ThriftValue = number | boolean | Buffer | ThriftRecord | readonly ThriftValue[];

const maxDepth = 16;
/** Values of a record and of those inside it. Prompt sets of the hub have hundreds. */
const maxValues = 100_000;

export function readThriftRecord(reader: ByteReader): ThriftRecord {
  let values = 0;

  const readRecord = (depth: number): ThriftRecord => {
    if (depth > maxDepth) throw new Error(`its records are nested more than ${maxDepth} levels`);
    const fields = new Map<number, ThriftValue>();
    for (let id = 0, head = reader.byte(); head !== 0; head = reader.byte()) {
      id = head >> 4 === 0 ? readSigned(reader) : id + (head >> 4);
      const type = head & 15;
      fields.set(id, type === 1 || type === 2 ? type === 1 : readValue(type, depth));
    }
    return fields;
  };

  const readValue = (type: number, depth: number): ThriftValue => {
    values += 1;
    if (values > maxValues) throw new Error(`it is described by more than ${maxValues} values`);
    switch (type) {
      case 1: // in a list, booleans are bytes
      case 2:
        return reader.byte() === 1;
      case 3:
        return reader.byte();
      case 4:
      case 5:
      case 6:
        return readSigned(reader);
      case 7:
        return reader.take(8).readDoubleLE();
      case 8:
        return reader.take(reader.varint());
      case 9: {
        const head = reader.byte();
        const count = head >> 4 === 15 ? reader.varint() : head >> 4;
        if (depth === maxDepth) throw new Error(`its lists are nested more than ${maxDepth} levels`);
        const list: ThriftValue[] = [];
        while (list.length < count) list.push(readValue(head & 15, depth + 1));
        return list;
      }
      case 12:
        return readRecord(depth + 1);
      default:
        throw new Error(`a field has the type ${type}`);
    }
  };

  return readRecord(0);
}

function readSigned(reader: ByteReader): number {
  const value = reader.varint();
  return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
}

export function numberOf(record: ThriftRecord, field: number): number | undefined {
  const value = record.get(field);
  return typeof value === 'number' ? value : undefined;
}

/** A count or a size. */
export function sizeOf(record: ThriftRecord, field: number, what: string): number {
  const value = record.get(field);
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value;
  throw new Error(`it has no valid ${what}`);
}

export function textOf(record: ThriftRecord, field: number): string | undefined {
  const value = record.get(field);
  return Buffer.isBuffer(value) ? value.toString() : undefined;
}

export function recordOf(record: ThriftRecord, field: number): ThriftRecord | undefined {
  const value = record.get(field);
  return value instanceof Map ? (value as ThriftRecord) : undefined;
}

export function listOf(record: ThriftRecord, field: number): readonly ThriftValue[] {
  const value = record.get(field);
  return Array.isArray(value) ? (value as readonly ThriftValue[]) : [];
}

export const recordsOf = (record: ThriftRecord, field: number): readonly ThriftRecord[] =>
  listOf(record, field).filter((value): value is ThriftRecord => value instanceof Map);
