// Shows the API's description, in the colours that the reader's system prefers.
const dark = matchMedia('(prefers-color-scheme: dark)')
const follow = () => document.documentElement.classList.toggle('dark-mode', dark.matches)
dark.addEventListener('change', follow)
follow()

// Adds to each call's text which scopes its token needs: Swagger UI shows the scopes of OAuth only.
const withScopes = (document) => {
  for (const call of Object.values(document.paths ?? {}).flatMap(Object.values)) {
    const scopes = (call.security ?? []).map((needs) => '`' + needs.token[0] + '`')
    const text = scopes.length ? `Needs a token with ${scopes.join(' or ')}.` : 'Needs no token.'
    call.description = [call.description, text].filter(Boolean).join('\n\n')
  }
  return document
}
const scopes = () => ({
  statePlugins: { spec: { wrapActions: { updateJsonSpec: (update) => (document) => update(withScopes(document)) } } },
})

SwaggerUIBundle({
  url: 'openapi.json',
  dom_id: '#api',
  plugins: [scopes],
  deepLinking: true, // each call has a link
  showExtensions: true, // the meaning of each error code is one
  validatorUrl: null, // nothing is sent elsewhere
})
