// Builds the page: one minified script, one style sheet, the skeleton, and the licences of what is inside.
// Run by `make page`; the result is committed, so nobody who installs rae needs Node. A checksum of the sources
// goes with it, by which a test sees that the two belong together.
import { createHash } from "node:crypto";
import { readFile, readdir, writeFile, mkdir, copyFile } from "node:fs/promises";
import path from "node:path";
import { build } from "esbuild";

const out = path.resolve("../src/rae/explore/assets");
await mkdir(out, { recursive: true });

const built = await build({
  entryPoints: { page: "src/main.js" },
  outdir: out,
  bundle: true,
  minify: true,
  charset: "ascii", // the script is written into a page: no byte of it depends on an encoding
  format: "iife",
  target: ["chrome103", "firefox113", "safari16.4"],
  legalComments: "none",
  metafile: true,
});
await build({ entryPoints: { page: "src/page.css" }, outdir: out, minify: true, charset: "ascii" });
await copyFile("src/page.html", path.join(out, "page.html"));

const sources = createHash("sha256");
for (const file of ["package-lock.json", ...(await readdir("src")).sort().map((name) => `src/${name}`)]) {
  sources.update(`${file}\n`).update(await readFile(file));
}
await writeFile(path.join(out, "sources.sha256"), `${sources.digest("hex")}\n`);

const packages = new Set(
  Object.keys(built.metafile.inputs)
    .map((file) => file.match(/^node_modules\/((?:@[^/]+\/)?[^/]+)\//)?.[1])
    .filter(Boolean),
);
const notices = [];
for (const name of [...packages].sort()) {
  const folder = path.join("node_modules", name);
  const { version, license } = JSON.parse(await readFile(path.join(folder, "package.json"), "utf8"));
  const file = (await readdir(folder)).find((entry) => /^licen[cs]e/i.test(entry));
  const text = file ? await readFile(path.join(folder, file), "utf8") : `Licence: ${license}`;
  notices.push(`${name} ${version} (${license})\n\n${text.trim()}\n`);
}
const line = "-".repeat(80);
await writeFile(
  path.join(out, "NOTICE.txt"),
  `The page contains these libraries, unchanged but minified.\n\n${line}\n${notices.join(`\n${line}\n`)}`,
);
