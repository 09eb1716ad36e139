/// The part of the API's description that is about one volume.
enum VolumeDescription {
    /// The endpoints by path.
    static let paths = #"""
        {
          "/v1/volumes/{volume}/have": {
            "post": {
              "operationId": "have",
              "summary": "Tells which chunks the hub has.",
              "parameters": [
                {"$ref": "#/components/parameters/Volume"},
                {"$ref": "#/components/parameters/Versions"}
              ],
              "requestBody": {
                "required": true,
                "description": "Ids of 32 bytes, at most 8192.",
                "content": {
                  "application/octet-stream": {"schema": {"type": "string", "format": "binary"}}
                }
              },
              "responses": {
                "200": {
                  "description": "One bit for each id, from the lowest bit of the first byte on.",
                  "content": {
                    "application/octet-stream": {"schema": {"type": "string", "format": \#
        "binary"}}
                  },
                  "headers": {
                    "Concord-Collection": {
                      "description": "The value to send with the commit.",
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
              "summary": "Uploads chunks. Chunks that arrived completely are stored even if \#
        the connection breaks.",
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
                  "description": "All chunks except those in bad are stored on the disk.",
                  "content": {
                    "application/json": {"schema": {"$ref": \#
        "#/components/schemas/ChunksAnswer"}}
                  }
                },
                "400": {"$ref": "#/components/responses/Malformed"},
                "401": {"$ref": "#/components/responses/Unauthenticated"},
                "403": {"$ref": "#/components/responses/Forbidden"},
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
              "summary": "Returns chunks in the requested order.",
              "parameters": [
                {"$ref": "#/components/parameters/Volume"},
                {"$ref": "#/components/parameters/Versions"}
              ],
              "requestBody": {
                "required": true,
                "description": "Ids of 32 bytes, at most 8192.",
                "content": {
                  "application/octet-stream": {"schema": {"type": "string", "format": "binary"}}
                }
              },
              "responses": {
                "200": {
                  "description": "Frames as in chunks. A chunk that is missing or damaged has \#
        the codec 255 and no bytes.",
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
              "summary": "Applies operations of this device, each exactly once and in order.",
              "parameters": [{"$ref": "#/components/parameters/Volume"}],
              "requestBody": {
                "required": true,
                "content": {
                  "application/json": {"schema": {"$ref": "#/components/schemas/CommitRequest"}}
                }
              },
              "responses": {
                "200": {
                  "description": "One result for each operation; refused ones are complete.",
                  "content": {
                    "application/json": {"schema": {"$ref": \#
        "#/components/schemas/CommitAnswer"}}
                  }
                },
                "400": {"$ref": "#/components/responses/Malformed"},
                "401": {"$ref": "#/components/responses/Unauthenticated"},
                "403": {"$ref": "#/components/responses/Forbidden"},
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
              "summary": "Returns the present states of items that changed after a position.",
              "parameters": [
                {"$ref": "#/components/parameters/Volume"},
                {
                  "name": "after",
                  "in": "query",
                  "required": false,
                  "description": "The position in the journal; 0 returns all items that are alive.",
                  "schema": {"type": "integer", "minimum": 0, "maximum": 9223372036854775807}
                },
                {
                  "name": "limit",
                  "in": "query",
                  "required": false,
                  "description": "The maximum number of changes, up to 1000; no sequence is split.",
                  "schema": {"type": "integer", "minimum": 0, "maximum": 9223372036854775807}
                },
                {
                  "name": "trashedAfter",
                  "in": "query",
                  "required": false,
                  "description": "Items that went to the trash up to this position are left out.",
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
                  "description": "The run that an answer named for the position after.",
                  "schema": {"$ref": "#/components/schemas/Id"}
                }
              ],
              "responses": {
                "200": {
                  "description": "A page of one consistent snapshot.",
                  "content": {
                    "application/json": {"schema": {"$ref": \#
        "#/components/schemas/ChangesAnswer"}},
                    "application/octet-stream": {"schema": {"type": "string", "format": \#
        "binary", "description": "The same as bytes, if Accept allows it."}}
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
              "summary": "Returns the manifests of versions.",
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
              "summary": "Streams hints as lines while the connection is open: the head \#
        at once and after each commit, and a heartbeat every 15 seconds.",
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
                  "description": "One Hint in each line.",
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
              "summary": "Records which versions this device has, or no longer has, completely.",
              "parameters": [{"$ref": "#/components/parameters/Volume"}],
              "requestBody": {
                "required": true,
                "content": {
                  "application/json": {"schema": {"$ref": "#/components/schemas/HoldingRequest"}}
                }
              },
              "responses": {
                "200": {
                  "description": "The hub has recorded it.",
                  "content": {"application/json": {"schema": {"$ref": \#
        "#/components/schemas/Done"}}}
                },
                "400": {"$ref": "#/components/responses/Malformed"},
                "401": {"$ref": "#/components/responses/Unauthenticated"},
                "403": {"$ref": "#/components/responses/Forbidden"},
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
              "summary": "Tells on how many devices versions are.",
              "parameters": [{"$ref": "#/components/parameters/Volume"}],
              "requestBody": {
                "required": true,
                "content": {
                  "application/json": {"schema": {"$ref": "#/components/schemas/RevisionList"}}
                }
              },
              "responses": {
                "200": {
                  "description": "One number for each version, in order; null if it is unknown.",
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
              "summary": "Lists chunks that versions need and the hub has lost: devices that have \#
        them upload them.",
              "parameters": [{"$ref": "#/components/parameters/Volume"}],
              "responses": {
                "200": {
                  "description": "At most 8192 ids.",
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
