extension Description {
    /// What is asked of one volume, by path.
    static let volumePaths = #"""
        {
          "/v1/volumes/{volume}/have": {
            "post": {
              "operationId": "have",
              "summary": "Which chunks are there.",
              "parameters": [{"$ref": "#/components/parameters/Volume"}],
              "requestBody": {
                "required": true,
                "description": "Ids of 32 bytes, at most 8192.",
                "content": {
                  "application/octet-stream": {"schema": {"type": "string", "format": "binary"}}
                }
              },
              "responses": {
                "200": {
                  "description": "A bit an id, the first in the lowest bit of the first byte.",
                  "content": {
                    "application/octet-stream": {"schema": {"type": "string", "format": \#
        "binary"}}
                  },
                  "headers": {
                    "Concord-Collection": {
                      "description": "Goes with the commit.",
                      "schema": {
                        "type": "integer",
                        "minimum": 0,
                        "maximum": 9223372036854775807,
                        "format": "int64"
                      }
                    }
                  }
                },
                "400": {"$ref": "#/components/responses/Malformed"},
                "401": {"$ref": "#/components/responses/Unauthenticated"},
                "404": {"$ref": "#/components/responses/NotFound"},
                "405": {"$ref": "#/components/responses/Method"},
                "500": {"$ref": "#/components/responses/Failed"},
                "503": {"$ref": "#/components/responses/Busy"},
                "507": {"$ref": "#/components/responses/Full"},
                "413": {"$ref": "#/components/responses/TooLarge"},
                "415": {"$ref": "#/components/responses/ContentType"}
              }
            }
          },
          "/v1/volumes/{volume}/chunks": {
            "post": {
              "operationId": "upload",
              "summary": "Upload chunks; those that came whole are kept, whatever becomes of \#
        the rest.",
              "parameters": [{"$ref": "#/components/parameters/Volume"}],
              "requestBody": {
                "required": true,
                "description": "Frames: length of the bytes (4, big-endian), id (32), codec \#
        (1: 0 plain, 1 zstd), bytes. At most 1000.",
                "content": {
                  "application/octet-stream": {"schema": {"type": "string", "format": "binary"}}
                }
              },
              "responses": {
                "200": {
                  "description": "Kept, on the disk, but for those that are bad.",
                  "content": {
                    "application/json": {"schema": {"$ref": \#
        "#/components/schemas/ChunksAnswer"}}
                  }
                },
                "400": {"$ref": "#/components/responses/Malformed"},
                "401": {"$ref": "#/components/responses/Unauthenticated"},
                "404": {"$ref": "#/components/responses/NotFound"},
                "405": {"$ref": "#/components/responses/Method"},
                "500": {"$ref": "#/components/responses/Failed"},
                "503": {"$ref": "#/components/responses/Busy"},
                "507": {"$ref": "#/components/responses/Full"},
                "413": {"$ref": "#/components/responses/TooLarge"},
                "415": {"$ref": "#/components/responses/ContentType"}
              }
            }
          },
          "/v1/volumes/{volume}/read": {
            "post": {
              "operationId": "read",
              "summary": "Chunks, in the order asked.",
              "parameters": [{"$ref": "#/components/parameters/Volume"}],
              "requestBody": {
                "required": true,
                "description": "Ids of 32 bytes, at most 8192.",
                "content": {
                  "application/octet-stream": {"schema": {"type": "string", "format": "binary"}}
                }
              },
              "responses": {
                "200": {
                  "description": "Frames as in chunks; codec 255 and no bytes for one that is \#
        not there or is damaged.",
                  "content": {
                    "application/octet-stream": {"schema": {"type": "string", "format": \#
        "binary"}}
                  }
                },
                "400": {"$ref": "#/components/responses/Malformed"},
                "401": {"$ref": "#/components/responses/Unauthenticated"},
                "404": {"$ref": "#/components/responses/NotFound"},
                "405": {"$ref": "#/components/responses/Method"},
                "500": {"$ref": "#/components/responses/Failed"},
                "503": {"$ref": "#/components/responses/Busy"},
                "507": {"$ref": "#/components/responses/Full"},
                "413": {"$ref": "#/components/responses/TooLarge"},
                "415": {"$ref": "#/components/responses/ContentType"}
              }
            }
          },
          "/v1/volumes/{volume}/commit": {
            "post": {
              "operationId": "commit",
              "summary": "Operations of this device, each done once and in their order.",
              "parameters": [{"$ref": "#/components/parameters/Volume"}],
              "requestBody": {
                "required": true,
                "content": {
                  "application/json": {"schema": {"$ref": "#/components/schemas/CommitRequest"}}
                }
              },
              "responses": {
                "200": {
                  "description": "What became of each. Refused ones count as done.",
                  "content": {
                    "application/json": {"schema": {"$ref": \#
        "#/components/schemas/CommitAnswer"}}
                  }
                },
                "400": {"$ref": "#/components/responses/Malformed"},
                "401": {"$ref": "#/components/responses/Unauthenticated"},
                "404": {"$ref": "#/components/responses/NotFound"},
                "405": {"$ref": "#/components/responses/Method"},
                "500": {"$ref": "#/components/responses/Failed"},
                "503": {"$ref": "#/components/responses/Busy"},
                "507": {"$ref": "#/components/responses/Full"},
                "413": {"$ref": "#/components/responses/TooLarge"},
                "415": {"$ref": "#/components/responses/ContentType"},
                "409": {"$ref": "#/components/responses/Conflict"},
                "410": {"$ref": "#/components/responses/Gone"}
              }
            }
          },
          "/v1/volumes/{volume}/changes": {
            "get": {
              "operationId": "changes",
              "summary": "Items that changed behind a place of the journal, as they are now.",
              "parameters": [
                {"$ref": "#/components/parameters/Volume"},
                {
                  "name": "after",
                  "in": "query",
                  "required": false,
                  "description": "0: all that are alive.",
                  "schema": {"type": "integer", "minimum": 0, "maximum": 9223372036854775807}
                },
                {
                  "name": "limit",
                  "in": "query",
                  "required": false,
                  "description": "At most 1000 are given; a whole sequence always.",
                  "schema": {"type": "integer", "minimum": 0, "maximum": 9223372036854775807}
                },
                {
                  "name": "trashedAfter",
                  "in": "query",
                  "required": false,
                  "description": "Items that went to the trash up to there are left out.",
                  "schema": {"type": "integer", "minimum": 0, "maximum": 9223372036854775807}
                },
                {
                  "name": "Concord-Epoch",
                  "in": "header",
                  "required": false,
                  "description": "The volume's epoch as the device knows it.",
                  "schema": {"$ref": "#/components/schemas/Id"}
                },
                {
                  "name": "Concord-Run",
                  "in": "header",
                  "required": false,
                  "description": "The run that an answer gave for this place of the journal.",
                  "schema": {"$ref": "#/components/schemas/Id"}
                }
              ],
              "responses": {
                "200": {
                  "description": "As of one moment.",
                  "content": {
                    "application/json": {"schema": {"$ref": \#
        "#/components/schemas/ChangesAnswer"}},
                    "application/octet-stream": {"schema": {"type": "string", "format": \#
        "binary", "description": "The same in fewer bytes, where that is accepted."}}
                  },
                  "headers": {
                    "Concord-Epoch": {
                      "description": "The volume's epoch.",
                      "schema": {"$ref": "#/components/schemas/Id"}
                    }
                  }
                },
                "400": {"$ref": "#/components/responses/Malformed"},
                "401": {"$ref": "#/components/responses/Unauthenticated"},
                "404": {"$ref": "#/components/responses/NotFound"},
                "405": {"$ref": "#/components/responses/Method"},
                "500": {"$ref": "#/components/responses/Failed"},
                "503": {"$ref": "#/components/responses/Busy"},
                "507": {"$ref": "#/components/responses/Full"},
                "410": {"$ref": "#/components/responses/Gone"}
              }
            }
          },
          "/v1/volumes/{volume}/manifests": {
            "post": {
              "operationId": "manifests",
              "summary": "What versions consist of.",
              "parameters": [{"$ref": "#/components/parameters/Volume"}],
              "requestBody": {
                "required": true,
                "content": {
                  "application/json": {"schema": {"$ref": "#/components/schemas/RevisionList"}}
                }
              },
              "responses": {
                "200": {
                  "description": "Frames: length of the bytes (4, big-endian), version (16), \#
        bytes. Unknown versions are left out.",
                  "content": {
                    "application/octet-stream": {"schema": {"type": "string", "format": \#
        "binary"}}
                  }
                },
                "400": {"$ref": "#/components/responses/Malformed"},
                "401": {"$ref": "#/components/responses/Unauthenticated"},
                "404": {"$ref": "#/components/responses/NotFound"},
                "405": {"$ref": "#/components/responses/Method"},
                "500": {"$ref": "#/components/responses/Failed"},
                "503": {"$ref": "#/components/responses/Busy"},
                "507": {"$ref": "#/components/responses/Full"},
                "413": {"$ref": "#/components/responses/TooLarge"},
                "415": {"$ref": "#/components/responses/ContentType"}
              }
            }
          },
          "/v1/volumes/{volume}/feed": {
            "get": {
              "operationId": "feed",
              "summary": "Hints, a line each, for as long as the connection stands: the head \#
        at once, then at every commit; a beat every 15 seconds.",
              "parameters": [
                {"$ref": "#/components/parameters/Volume"},
                {
                  "name": "Concord-Epoch",
                  "in": "header",
                  "required": false,
                  "description": "The volume's epoch as the device knows it.",
                  "schema": {"$ref": "#/components/schemas/Id"}
                }
              ],
              "responses": {
                "200": {
                  "description": "Lines of Hint.",
                  "headers": {
                    "Concord-Epoch": {
                      "description": "The volume's epoch.",
                      "schema": {"$ref": "#/components/schemas/Id"}
                    }
                  },
                  "content": {"application/x-ndjson": {"schema": {"type": "string"}}}
                },
                "400": {"$ref": "#/components/responses/Malformed"},
                "401": {"$ref": "#/components/responses/Unauthenticated"},
                "404": {"$ref": "#/components/responses/NotFound"},
                "405": {"$ref": "#/components/responses/Method"},
                "500": {"$ref": "#/components/responses/Failed"},
                "503": {"$ref": "#/components/responses/Busy"},
                "507": {"$ref": "#/components/responses/Full"},
                "410": {"$ref": "#/components/responses/Gone"}
              }
            }
          },
          "/v1/volumes/{volume}/holding": {
            "post": {
              "operationId": "holding",
              "summary": "This device has all bytes of these versions, or no longer has them.",
              "parameters": [{"$ref": "#/components/parameters/Volume"}],
              "requestBody": {
                "required": true,
                "content": {
                  "application/json": {"schema": {"$ref": "#/components/schemas/HoldingRequest"}}
                }
              },
              "responses": {
                "200": {
                  "description": "It is noted.",
                  "content": {"application/json": {"schema": {"$ref": \#
        "#/components/schemas/Done"}}}
                },
                "400": {"$ref": "#/components/responses/Malformed"},
                "401": {"$ref": "#/components/responses/Unauthenticated"},
                "404": {"$ref": "#/components/responses/NotFound"},
                "405": {"$ref": "#/components/responses/Method"},
                "500": {"$ref": "#/components/responses/Failed"},
                "503": {"$ref": "#/components/responses/Busy"},
                "507": {"$ref": "#/components/responses/Full"},
                "413": {"$ref": "#/components/responses/TooLarge"},
                "415": {"$ref": "#/components/responses/ContentType"}
              }
            }
          },
          "/v1/volumes/{volume}/durability": {
            "post": {
              "operationId": "durability",
              "summary": "On how many devices versions are.",
              "parameters": [{"$ref": "#/components/parameters/Volume"}],
              "requestBody": {
                "required": true,
                "content": {
                  "application/json": {"schema": {"$ref": "#/components/schemas/RevisionList"}}
                }
              },
              "responses": {
                "200": {
                  "description": "In the order asked; null for an unknown version.",
                  "content": {
                    "application/json": {"schema": {"$ref": \#
        "#/components/schemas/DurabilityAnswer"}}
                  }
                },
                "400": {"$ref": "#/components/responses/Malformed"},
                "401": {"$ref": "#/components/responses/Unauthenticated"},
                "404": {"$ref": "#/components/responses/NotFound"},
                "405": {"$ref": "#/components/responses/Method"},
                "500": {"$ref": "#/components/responses/Failed"},
                "503": {"$ref": "#/components/responses/Busy"},
                "507": {"$ref": "#/components/responses/Full"},
                "413": {"$ref": "#/components/responses/TooLarge"},
                "415": {"$ref": "#/components/responses/ContentType"}
              }
            }
          },
          "/v1/volumes/{volume}/wanted": {
            "get": {
              "operationId": "wanted",
              "summary": "Chunks that versions need and the hub has lost: who has them \#
        uploads them.",
              "parameters": [{"$ref": "#/components/parameters/Volume"}],
              "responses": {
                "200": {
                  "description": "At most 8192.",
                  "content": {
                    "application/json": {"schema": {"$ref": \#
        "#/components/schemas/WantedAnswer"}}
                  }
                },
                "400": {"$ref": "#/components/responses/Malformed"},
                "401": {"$ref": "#/components/responses/Unauthenticated"},
                "404": {"$ref": "#/components/responses/NotFound"},
                "405": {"$ref": "#/components/responses/Method"},
                "500": {"$ref": "#/components/responses/Failed"},
                "503": {"$ref": "#/components/responses/Busy"},
                "507": {"$ref": "#/components/responses/Full"}
              }
            }
          }
        }
        """#
}
