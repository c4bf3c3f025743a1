// Pictures from the visitor: dropped (folders too), pasted, chosen. Each is { file, path }.

const SUFFIX = /\.(jpe?g|png|webp|gif|bmp|tiff?|avif|hei[cf])$/i;
const takers = new Map();
let depth = 0;

/** In the view of this name, `use(items, target, skipped)` takes what is dropped or pasted. */
export const onFiles = (view, use) => takers.set(view, use);

/** Let a file input hand over what is chosen; a second choice of the same file counts too. */
export function onChoice(input, use) {
  input.addEventListener("change", () => {
    const items = [...input.files].map(asItem);
    input.value = "";
    if (!items.length) return;
    if (!input.webkitdirectory) return use(items, input, 0);
    const pictures = items.filter(isPicture);
    use(pictures, input, items.length - pictures.length);
  });
}

const asItem = (file) => ({ file, path: file.webkitRelativePath || file.name || "Pasted picture" });
const isPicture = ({ file }) => file.type.startsWith("image/") || SUFFIX.test(file.name);
const bringsFiles = (event) => event.dataTransfer?.types.includes("Files");
const taker = () => takers.get(document.body.dataset.view);

function dragging(change) {
  depth = Math.max(0, depth + change);
  document.body.classList.toggle("dragging", depth > 0);
}

async function walk(entry, found) {
  const ask = (use) => new Promise(use);
  if (entry.isFile) {
    const file = await ask((resolve) => entry.file(resolve, () => resolve(null)));
    if (file) found.push({ file, path: entry.fullPath.replace(/^\//, "") });
    return;
  }
  const reader = entry.createReader();
  for (;;) {
    // A reader gives a hundred at a time.
    const some = await ask((resolve) => reader.readEntries(resolve, () => resolve([])));
    if (!some.length) return;
    for (const child of some) await walk(child, found);
  }
}

async function dropped(transfer) {
  // Both must be asked for before the first wait: the transfer is emptied after the event.
  const files = [...transfer.files];
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.some((entry) => entry.isDirectory)) return [files.map(asItem), 0];
  const found = [];
  for (const entry of entries) await walk(entry, found);
  const pictures = found.filter(isPicture);
  return [pictures, found.length - pictures.length];
}

addEventListener("dragenter", (event) => bringsFiles(event) && dragging(1));
addEventListener("dragleave", (event) => bringsFiles(event) && dragging(-1));
addEventListener("dragover", (event) => {
  if (!bringsFiles(event)) return;
  event.preventDefault();
  if (!taker()) event.dataTransfer.dropEffect = "none";
});
addEventListener("drop", async (event) => {
  if (!bringsFiles(event)) return;
  event.preventDefault();
  depth = 0;
  dragging(0);
  const use = taker();
  const [items, skipped] = await dropped(event.dataTransfer);
  if (items.length || skipped) use?.(items, event.target, skipped);
});
addEventListener("paste", (event) => {
  const items = [...(event.clipboardData?.files ?? [])].map(asItem);
  if (items.length) taker()?.(items, document.activeElement, 0);
});
