import { describe, expect, it } from 'vitest';
import { bufferOf, float32, floatsOf, int32, integersOf, resident } from './program.js';
import { allocateHostRows } from './row-buffer.js';

describe('reading outputs', () => {
  const kept = resident(allocateHostRows(2, 3));
  const outputs = { loss: float32(new Float32Array(1), [1]), top: int32([4, 2]), kept };

  it('gives the array of the right type', () => {
    expect(floatsOf(outputs, 'loss')).toBe(outputs.loss.data);
    expect(integersOf(outputs, 'top')).toBe(outputs.top.data);
    expect(bufferOf(outputs, 'kept')).toBe(kept.buffer);
    expect(kept.shape).toEqual([2, 3]);
  });

  it('refuses another name or type', () => {
    expect(() => floatsOf(outputs, 'top')).toThrow('no float32 output "top"; it has loss, top, kept.');
    expect(() => integersOf(outputs, 'gone')).toThrow('no int32 output "gone"; it has loss, top, kept.');
    expect(() => floatsOf(outputs, 'kept')).toThrow('no float32 output "kept"');
    expect(() => bufferOf(outputs, 'loss')).toThrow('left no output "loss" with the runtime.');
  });
});
