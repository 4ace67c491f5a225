package opspage_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
)

// testReference opens the reference of the API, which needs no token, and makes a call there, which
// needs one. The reference must ask no other host. The browser must report no error, because the
// service's policy allows everything that the reference needs.
func testReference(browser *chromium, s *service) func(*testing.T) {
	return func(t *testing.T) {
		res, err := http.Get(s.URL + "/openapi.json") //nolint:noctx // the server is this test's
		must(t, err)
		defer res.Body.Close()
		var document struct {
			Paths map[string]map[string]any `json:"paths"`
		}
		must(t, json.NewDecoder(res.Body).Decode(&document))
		operations := 0
		for _, item := range document.Paths {
			operations += len(item)
		}

		b := visit(t, browser, s.URL, "/docs", look{dark: true})
		b.until(fmt.Sprintf("document.querySelectorAll('.opblock').length === %d", operations))
		b.want(".info", "Drops from a feed what its viewer must not see.")
		b.until("document.documentElement.classList.contains('dark-mode')")
		b.shoot("reference")

		const call = "#operations-Service-getKinds "
		b.click(call + ".opblock-summary-control")
		b.until("document.querySelector('" + call + ".opblock-description')")
		b.want(call+".opblock-description", "Needs a token with feed:read or activity:write or source:write or ops:read or ops:write.")
		b.click(call + ".try-out__btn")
		b.click(call + ".execute")
		b.until("document.querySelector('" + call + ".live-responses-table .response .response-col_status')?.innerText.startsWith('401')")
		b.click(".auth-wrapper .authorize")
		b.until("document.querySelector('.auth-container input')")
		value[bool](b, fmt.Sprintf(`(() => {
			const input = document.querySelector('.auth-container input')
			Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set.call(input, %q) // bypasses React's setter
			return input.dispatchEvent(new Event('input', { bubbles: true }))
		})()`, s.token))
		b.click(".auth-btn-wrapper .authorize")
		b.click(".auth-btn-wrapper .btn-done")
		b.click(call + ".execute")
		b.until("document.querySelector('" + call + ".live-responses-table .response .response-col_status')?.innerText.startsWith('200')")
		b.want(call+".live-responses-table", `"name": "block"`)
		b.shoot("reference-call")

		b.until("document.querySelectorAll('.models .json-schema-2020-12').length > 20")
		value[bool](b, `(() => {
			const error = [...document.querySelectorAll('.models .json-schema-2020-12')].find((m) => m.querySelector('.json-schema-2020-12__title')?.innerText === 'Error')
			error.querySelector('.json-schema-2020-12-expand-deep-button').click()
			return true
		})()`)
		b.until("document.querySelector('.models').innerText.includes('404: there is nothing at this path.')")
		b.shoot("reference-error")
	}
}
