import type { ElementType } from '../driver/device.js';

const sizes: Readonly<Record<ElementType, number>> = {
  float32: 4,
  bfloat16: 2,
  float16: 2,
  int32: 4,
  bool: 1,
};

export const bytesOf = (type: ElementType): number => sizes[type];
