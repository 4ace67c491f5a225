// Generated from the service's OpenAPI document; do not edit.

export interface paths {
    "/readyz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Check that feeds can be answered
         * @description Answers 200 also if only the pages, or only the ledger, can be reached.
         */
        get: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Feeds can be answered. */
                200: {
                    headers: {
                        "X-Request-Id": components["headers"]["RequestID"];
                        [name: string]: unknown;
                    };
                    content: {
                        /**
                         * @example {
                         *       "status": "degraded",
                         *       "down": [
                         *         {
                         *           "dependency": "pages",
                         *           "reason": "it does not answer in time"
                         *         }
                         *       ]
                         *     }
                         */
                        "application/json": components["schemas"]["Readiness"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/activities": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Record and undo many activities
         * @description - `application/json`: 1 to 10,000 activities. One that is invalid refuses the whole
         *       request, and `field` names it.
         *     - `application/x-ndjson`: a stream of any length, one activity a line of up to 16 KiB.
         *       Errors are the results of their lines.
         *
         *     Each activity gets a result, in order. An `until` that has passed, or a `since` in the
         *     future, is the error of its activity alone. A client of a stream must read while it writes.
         *     After a cut-off it sends the unanswered lines again.
         */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody: {
                content: {
                    /**
                     * @example {
                     *       "activities": [
                     *         {
                     *           "user": "1",
                     *           "kind": "block",
                     *           "target": "2",
                     *           "op": "add"
                     *         },
                     *         {
                     *           "user": "1",
                     *           "kind": "hide",
                     *           "target": "p7",
                     *           "op": "remove"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Batch"];
                    /**
                     * @example {"user":"1","kind":"block","target":"2","op":"add"}
                     *     {"user":"1","kind":"hide","target":"p7","op":"remove"}
                     */
                    "application/x-ndjson": components["schemas"]["Activity"];
                };
            };
            responses: {
                /** @description A result for each activity, in the media type of the request. */
                200: {
                    headers: {
                        "X-Request-Id": components["headers"]["RequestID"];
                        [name: string]: unknown;
                    };
                    content: {
                        /**
                         * @example {
                         *       "results": [
                         *         {
                         *           "changed": true
                         *         },
                         *         {
                         *           "changed": false
                         *         }
                         *       ]
                         *     }
                         */
                        "application/json": components["schemas"]["Results"];
                        /**
                         * @example {"changed":true}
                         *     {"changed":false}
                         */
                        "application/x-ndjson": components["schemas"]["Result"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/kinds": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the kinds of activities
         * @description Besides `block`, `hide`, `like` and `seen` a service may have configured kinds, with the same calls.
         */
        get: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description All kinds. */
                200: {
                    headers: {
                        "X-Request-Id": components["headers"]["RequestID"];
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Kinds"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/pages": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Read the number of pages */
        get: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description The number of pages, and the progress of a change of it. */
                200: {
                    headers: {
                        "X-Request-Id": components["headers"]["RequestID"];
                        [name: string]: unknown;
                    };
                    content: {
                        /**
                         * @example {
                         *       "pages": 256,
                         *       "homes": 64,
                         *       "reshaped": 12,
                         *       "shared_pages": 64,
                         *       "dedicated_pages": 3,
                         *       "keys_per_page": 1043.5,
                         *       "due": 0,
                         *       "reshaping": true
                         *     }
                         */
                        "application/json": components["schemas"]["Pages"];
                    };
                };
            };
        };
        /**
         * Raise the number of pages
         * @description The number only grows, and a change cannot be taken back. A reshape runs in the background; if the process ends, any process that starts resumes it. `GET` reports the progress.
         */
        put: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody: {
                content: {
                    /**
                     * @example {
                     *       "pages": 256
                     *     }
                     */
                    "application/json": components["schemas"]["PagesRequest"];
                };
            };
            responses: {
                /** @description The reshape is already running in this process, or there is nothing to do. */
                200: {
                    headers: {
                        "X-Request-Id": components["headers"]["RequestID"];
                        [name: string]: unknown;
                    };
                    content: {
                        /**
                         * @example {
                         *       "pages": 256,
                         *       "homes": 64,
                         *       "reshaped": 12,
                         *       "shared_pages": 64,
                         *       "dedicated_pages": 3,
                         *       "keys_per_page": 1043.5,
                         *       "due": 0,
                         *       "reshaping": true
                         *     }
                         */
                        "application/json": components["schemas"]["Pages"];
                    };
                };
            };
        };
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/stats": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Read the counters of the process */
        get: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Counters since the process started. */
                200: {
                    headers: {
                        "X-Request-Id": components["headers"]["RequestID"];
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Stats"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/users/{user}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * Remove every trace of a user
         * @description Removes the user's own activities, those of others with the user, and everything the user has seen. It takes up to 5 minutes. After a 503, or without an answer, repeat the call: it continues, and counts only the remaining activities.
         */
        delete: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /**
                     * @description The user's id.
                     * @example 1
                     */
                    user: components["schemas"]["ID"];
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description No trace of the user is left. */
                200: {
                    headers: {
                        "X-Request-Id": components["headers"]["RequestID"];
                        [name: string]: unknown;
                    };
                    content: {
                        /**
                         * @example {
                         *       "deleted": 12
                         *     }
                         */
                        "application/json": components["schemas"]["Deleted"];
                    };
                };
            };
        };
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/users/{user}/export": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Export a user's activities
         * @description Exports all activities that the ledger keeps, in the format that `feedfilter import` reads. An answer that is cut off is incomplete.
         */
        get: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /**
                     * @description The user's id.
                     * @example 1
                     */
                    user: components["schemas"]["ID"];
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description One line for each activity, ordered by kind and target. */
                200: {
                    headers: {
                        "X-Request-Id": components["headers"]["RequestID"];
                        [name: string]: unknown;
                    };
                    content: {
                        /** @example {"user":"1","kind":"hide","target":"p2","op":"add","since":"2026-11-20T09:30:00Z"} */
                        "application/x-ndjson": components["schemas"]["ExportLine"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/users/{user}/preview": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Preview the effect of recording activities
         * @description Reports what recording the targets would change, and changes nothing.
         */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /**
                     * @description The user's id.
                     * @example 1
                     */
                    user: components["schemas"]["ID"];
                };
                cookie?: never;
            };
            requestBody: {
                content: {
                    /**
                     * @example {
                     *       "kind": "block",
                     *       "targets": [
                     *         "2",
                     *         "3"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["PreviewRequest"];
                };
            };
            responses: {
                /** @description The expected effect. */
                200: {
                    headers: {
                        "X-Request-Id": components["headers"]["RequestID"];
                        [name: string]: unknown;
                    };
                    content: {
                        /**
                         * @example {
                         *       "new": 1,
                         *       "present": 1,
                         *       "total": 3,
                         *       "limit": 5000,
                         *       "over": false
                         *     }
                         */
                        "application/json": components["schemas"]["Preview"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description An id of a user or a post: 1 to 256 bytes of UTF-8 without control characters. */
        ID: string;
        /**
         * @description The name of a kind of activities; `GET /v1/kinds` lists them.
         * @enum {string}
         */
        Kind: "block" | "hide" | "like" | "seen";
        /**
         * @description The name or the plural of a kind of activities.
         * @enum {string}
         */
        GivenKind: "block" | "hide" | "like" | "seen" | "blocks" | "hides" | "likes";
        /**
         * @description The name or the plural of a kind that the ledger keeps.
         * @enum {string}
         */
        LedgerKind: "block" | "hide" | "like" | "blocks" | "hides" | "likes";
        /**
         * Format: date-time
         * @description When the activity ends by itself: a time in RFC 3339, in the future, up to the year 9999. Fractions of a microsecond are cut off.
         */
        Until: string;
        /** @description Every error has this shape. */
        Error: {
            error: {
                /**
                 * @description The error, for programs.
                 * @enum {string}
                 */
                code: "audit_unavailable" | "cross_origin" | "deadline_exceeded" | "duplicate_key" | "followed" | "forbidden" | "incomplete_row" | "internal" | "invalid_cursor" | "invalid_id" | "invalid_position" | "invalid_row" | "invalid_type" | "limit_reached" | "malformed_json" | "malformed_message" | "malformed_query" | "method_not_allowed" | "misdirected" | "missing_field" | "no_activity" | "no_ledger" | "not_followed" | "not_found" | "not_yet" | "out_of_range" | "overloaded" | "rate_limited" | "repeated_parameter" | "self_block" | "snapshot_needed" | "stuck" | "timeout" | "too_large" | "too_many_ids" | "too_many_pages" | "unauthenticated" | "unavailable" | "unexpected_body" | "unknown_event" | "unknown_facet" | "unknown_field" | "unknown_kind" | "unknown_op" | "unknown_parameter" | "unreadable_body" | "unsupported_media_type" | "unsupported_op" | "wrong_effect";
                /** @description The error, for people. */
                message: string;
                /** @description The place in the request, such as `posts[3].author`. */
                field?: string;
                /** @description The limit reached, with the code `limit_reached`. */
                limit?: number;
            };
        };
        Changed: {
            /** @description Whether the call changed anything. */
            changed: boolean;
        };
        /** @description One activity of a batch or a stream. */
        Activity: {
            /** @description The user who acts. */
            user: components["schemas"]["ID"];
            kind: components["schemas"]["GivenKind"];
            /** @description The user or post that the activity is about. */
            target: components["schemas"]["ID"];
            /** @enum {string} */
            op: "add" | "remove";
            /**
             * Format: date-time
             * @description When the activity happened, only with `add`. Default: now. A window keeps the activity from then on, or changes nothing if it would already be forgotten.
             */
            since?: string;
            /** @description Only with `add`, and only for kinds without a window. */
            until?: components["schemas"]["Until"];
        };
        Batch: {
            /** @description All are checked before anything is recorded. */
            activities: components["schemas"]["Activity"][];
        };
        /** @description The result of one activity. */
        Result: components["schemas"]["Changed"] | components["schemas"]["Error"];
        Results: {
            /** @description One for each activity, in order. */
            results: components["schemas"]["Result"][];
        };
        PreviewRequest: {
            kind: components["schemas"]["LedgerKind"];
            /** @description The users or posts that the activities would be about. */
            targets: components["schemas"]["ID"][];
        };
        Preview: {
            /** @description Distinct targets that are not recorded yet. */
            new: number;
            /** @description Distinct targets that are already recorded. */
            present: number;
            /** @description The user's activities of this kind afterwards. Those that are recorded count up to 100,000, or to the limit if that is more. */
            total: number;
            /** @description The maximum for each user; null: no limit. */
            limit: number | null;
            /** @description Whether the limit would refuse some of the new ones. */
            over: boolean;
        };
        ExportLine: {
            user: components["schemas"]["ID"];
            /** @description A kind that the ledger knows. */
            kind: string;
            target: components["schemas"]["ID"];
            /** @enum {string} */
            op: "add";
            /**
             * Format: date-time
             * @description When the activity was recorded, in UTC.
             */
            since: string;
            /**
             * Format: date-time
             * @description When the activity ends by itself, in UTC.
             */
            until?: string;
        };
        Deleted: {
            /** @description Activities removed: the user's own, and those of others with the user. */
            deleted: number;
            /** @description Followed kinds of which the user has activities: their source alone removes them. */
            left?: string[];
        };
        Kinds: {
            kinds: {
                name: components["schemas"]["Kind"];
                /** @description The kind's second name, which paths here have. */
                plural: string;
                /** @description The facet of posts that the kind's activities point at: `user`, `post` or one that the kinds file names. */
                target: string;
                /**
                 * @description What the kind does to a post: drop it, annotate it, or keep it in spite of the kinds in `over`.
                 * @enum {string}
                 */
                effect: "drop" | "annotate" | "keep";
                /** @description Whether the targets are phrases, which are found in the texts of posts. Absent: `false`. */
                text?: boolean;
                /** @description How ids of the target's facet are made alike, such as `case` or `host`. Absent: they are compared byte by byte. */
                fold?: string;
                /** @description Which ids of the target's facet an activity covers besides its own, such as `domain` or `path`. Absent: none. */
                rollup?: string;
                /** @description With the effect `keep`: the kinds that it overrules. */
                over?: string[];
                /** @description The roles of users on a post in which the kind looks at them. Absent: all. */
                roles?: string[];
                /** @description Whether `POST /v1/fanout/filter` checks this one-way kind. Absent: `false`. It checks two-way kinds in any case. */
                fanout?: boolean;
                /** @description Whether the target's feed is affected too. */
                two_way: boolean;
                /** @description Whether the ledger keeps the kind. If not, the kind has a window. */
                ledger: boolean;
                /** @description How long an activity is kept at least, in seconds. */
                window_seconds?: number;
                /** @description The number of parts of the window; the oldest is forgotten first. */
                parts?: number;
                /** @description How many of a user's newest activities stay in the window, if it is configured; otherwise 10,000. Older ones are forgotten. */
                most?: number;
                /** @description The maximum for each user; null: no limit. */
                limit: number | null;
            }[];
        };
        Readiness: {
            /**
             * @description `degraded`: only the pages, or only the ledger, can be reached.
             * @enum {string}
             */
            status: "ready" | "degraded" | "unavailable";
            /** @description The dependencies that cannot be reached. */
            down?: {
                /** @description `ledger`, `pages` or `service`. */
                dependency: string;
                /** @description The reason, for people. */
                reason: string;
            }[];
        };
        PagesRequest: {
            /** @description A power of two, and not fewer than there are. */
            pages: number;
            /** @description Accept more than 16 times the pages due. Default: `false`. */
            force?: boolean;
        };
        Pages: {
            /** @description The number of pages last asked for. */
            pages: number;
            /** @description Groups of users: as many as there were pages when the data was created. */
            homes: number;
            /** @description The number of homes whose new pages are built, as far as this process knows; all of `homes` if no reshape is under way. */
            reshaped: number;
            /** @description Shared pages in use. While a reshape builds others, the number is the previous one. */
            shared_pages: number;
            /** @description Pages dedicated to one heavy user each. */
            dedicated_pages: number;
            /** @description The mean of the shared pages: the keys that the last scrub counted, on the pages that there are now; 0 before its first round. */
            keys_per_page: number;
            /** @description The recommended number of pages, if these have more than 4,096 keys each; otherwise 0. */
            due: number;
            /** @description Whether a reshape is running in this process. */
            reshaping: boolean;
            /** @description Why the reshape is stalled. */
            trouble?: string;
        };
        /** @description Counters of this process since it started. */
        Stats: {
            uptime_seconds: number;
            goroutines: number;
            /** @description Bytes of objects on the heap, garbage not yet collected included. */
            heap_bytes: number;
            requests: {
                /** @description Requests in progress, of those that the limit counts. */
                in_progress: number;
                /** @description Requests refused for overload. */
                shed: number;
                /** @description All requests, whatever their answer. */
                total: number;
            };
            access: {
                /** @description Requests refused by access checks, by error code. */
                refused: {
                    unauthenticated: number;
                    forbidden: number;
                    rate_limited: number;
                    misdirected: number;
                    cross_origin: number;
                    audit_unavailable: number;
                };
                token_file?: {
                    /** @description Changes of the token file that came into force. */
                    reloads: number;
                    /** @description Changes of the token file that failed. */
                    failures: number;
                    /** @description Whether the token file is failing now. */
                    failing: boolean;
                };
                /** @description Lines of the audit log that could not be written. */
                audit_failures: number;
            };
            feeds: {
                answered: number;
                /** @description Posts kept. */
                kept: number;
                /** @description Posts dropped, by the kind that dropped them. */
                dropped: {
                    block: number;
                    hide: number;
                    seen: number;
                };
                /** @description Feeds, by the kind that could not be checked. */
                degraded: {
                    block: number;
                    hide: number;
                    like: number;
                    seen: number;
                };
            };
            /** @description Results of comparing sampled feeds with the ledger. */
            sampling: {
                /** @description Feeds compared. */
                feeds: number;
                /** @description Candidates looked at in these feeds. */
                candidates: number;
                /** @description Posts kept, or not annotated, although the ledger had the activity. Must be 0. */
                misses: number;
                /** @description Posts dropped or annotated although the ledger does not have the activity. */
                false_positives: number;
                /** @description Posts kept whose activity was recorded shortly before and was not yet acknowledged. */
                late: number;
                /** @description Posts where the time of the ledger's change is unknown, so that the result stays open. */
                undecided: number;
                /** @description Feeds sampled but not compared: the queue was full, or the feed was too large. */
                skipped: number;
                /** @description Feeds not compared because the ledger or the pages could not be read. */
                errors: number;
                /** @description Pages rebuilt because of a miss. */
                repaired: number;
            };
            /** @description Internals of the recorder. They may change from version to version. */
            recorder: Record<string, never>;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: {
        /** @description The challenge, as RFC 6750 defines it. */
        WWWAuthenticate: string;
        /** @description Seconds to wait before repeating the call. */
        RetryAfter: number;
        /** @description The request's id in the log. It is the request's own X-Request-Id if that is 1 to 64 letters, digits and `-_.`; otherwise it is random. */
        RequestID: string;
    };
    pathItems: never;
}
export type $defs = Record<string, never>;
export type operations = Record<string, never>;
