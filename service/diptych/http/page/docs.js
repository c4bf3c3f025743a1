// The OpenAPI document by Swagger UI, which is served from here and asks this service alone.

const system = matchMedia("(prefers-color-scheme: dark)");

/** The theme that was chosen on the page, else the system's. */
function paint() {
  let kept = null;
  try {
    kept = localStorage.getItem("diptych.theme");
  } catch {
    // a browser that keeps nothing
  }
  document.documentElement.classList.toggle("dark-mode", kept ? kept === "dark" : system.matches);
}

paint();
system.addEventListener("change", paint);

const spec = await (await fetch("/openapi.json")).json();
for (const { requestBody } of Object.values(spec.paths).flatMap(Object.values)) {
  const { "multipart/form-data": form, ...others } = requestBody?.content ?? {};
  if (!form) continue;
  requestBody.content = { "multipart/form-data": form, ...others }; // first what takes files
  for (const [name, field] of Object.entries(form.schema.properties)) {
    // Swagger UI would fill each field, and name a model "string".
    if (!form.schema.required.includes(name)) Object.assign(field, { example: "", examples: undefined });
  }
}
window.SwaggerUIBundle({
  spec,
  dom_id: "#docs",
  validatorUrl: null, // by default a host of Swagger's is asked for a badge
  deepLinking: true,
  tryItOutEnabled: true,
  defaultModelsExpandDepth: 0,
  plugins: [{ wrapComponents: { ParameterIncludeEmpty: () => () => null } }], // what is empty is not sent
});
