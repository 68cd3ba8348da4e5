import tseslint from 'typescript-eslint';

export default tseslint.config(
  { ignores: ['dist/', 'node_modules/', 'coverage/', 'runs/', 'out/', 'eslint.config.js'] },
  ...tseslint.configs.strictTypeChecked,
  ...tseslint.configs.stylisticTypeChecked,
  {
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      // Typed arrays under noUncheckedIndexedAccess: the loop bound is the proof, `!` records it.
      '@typescript-eslint/no-non-null-assertion': 'off',
      // Numbers read well inside messages.
      '@typescript-eslint/restrict-template-expressions': [
        'error',
        { allowNumber: true, allowBoolean: true },
      ],
      '@typescript-eslint/switch-exhaustiveness-check': [
        'error',
        { considerDefaultExhaustiveForUnions: true },
      ],
      'no-console': 'error',
    },
  },
  {
    files: ['bench/**/*.ts', 'examples/**/*.ts', 'test/**/*.ts'],
    rules: { 'no-console': 'off' },
  },
);
