/** Code and math prompts that the bundled model answers correctly. */
import type { Prompt } from '../../text/prompts/prompt-set.js';
import { inlinePrompt } from '../../text/prompts/prompt-set.js';

const texts = {
  reverse: 'Write a Python function that reverses a string.',
  vowels: 'Write a Python function that counts the vowels in a word.',
  prime: 'Write a Python function to check if a number is prime.',
  factorial: 'Write a Python function that computes the factorial of a number.',
  palindrome: 'Write a Python function that checks if a string is a palindrome.',
  fibonacci: 'Write a Python function that returns the n-th Fibonacci number.',
  apples:
    'Tom has 12 apples. He gives 5 to his sister and then buys 8 more. How many apples does he have now?',
} as const;

export const demoPrompts: readonly Prompt[] = Object.entries(texts).map(([id, text]) => ({
  ...inlinePrompt(text),
  id,
}));
