extension Description {
    /// The hub's own endpoints, by path.
    static let paths = #"""
        {
          "/healthz": {
            "get": {
              "operationId": "health",
              "summary": "Checks whether the hub and its ledger answer.",
              "security": [],
              "responses": {
                "200": {
                  "description": "The hub and its ledger answer.",
                  "content": {"application/json": {"schema": {"$ref": \#
        "#/components/schemas/Health"}}}
                },
                "500": {"$ref": "#/components/responses/Failed"},
                "503": {"$ref": "#/components/responses/Busy"}
              }
            }
          },
          "/metrics": {
            "get": {
              "operationId": "metrics",
              "summary": "Metrics for Prometheus.",
              "security": [],
              "responses": {
                "200": {
                  "description": "Prometheus's text format, version 0.0.4.",
                  "content": {"text/plain": {"schema": {"type": "string"}}}
                },
                "500": {"$ref": "#/components/responses/Failed"},
                "503": {"$ref": "#/components/responses/Busy"}
              }
            }
          },
          "/openapi.json": {
            "get": {
              "operationId": "description",
              "summary": "This description of the API.",
              "security": [],
              "responses": {
                "200": {
                  "description": "This description of the API.",
                  "content": {"application/json": {"schema": {"type": "object"}}}
                }
              }
            }
          },
          "/v1/enrol": {
            "post": {
              "operationId": "enrol",
              "summary": "Signs a device in with a code.",
              "security": [],
              "requestBody": {
                "required": true,
                "content": {
                  "application/json": {"schema": {"$ref": "#/components/schemas/EnrolRequest"}}
                }
              },
              "responses": {
                "200": {
                  "description": "The device is signed in; its other tokens are no longer valid.",
                  "content": {
                    "application/json": {"schema": {"$ref": "#/components/schemas/EnrolAnswer"}}
                  }
                },
                "400": {"$ref": "#/components/responses/Malformed"},
                "403": {"$ref": "#/components/responses/Code"},
                "409": {"$ref": "#/components/responses/Conflict"},
                "413": {"$ref": "#/components/responses/TooLarge"},
                "415": {"$ref": "#/components/responses/ContentType"},
                "429": {"$ref": "#/components/responses/TooMany"},
                "500": {"$ref": "#/components/responses/Failed"},
                "503": {"$ref": "#/components/responses/Busy"},
                "507": {"$ref": "#/components/responses/Full"},
                "405": {"$ref": "#/components/responses/Method"}
              }
            }
          },
          "/v1/signout": {
            "post": {
              "operationId": "signOut",
              "summary": "Signs the device out: its tokens are no longer valid.",
              "responses": {
                "200": {
                  "description": "The device is signed out.",
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
                "413": {"$ref": "#/components/responses/TooLarge"}
              }
            }
          },
          "/v1/devices": {
            "get": {
              "operationId": "devices",
              "summary": "Lists the account's devices.",
              "responses": {
                "200": {
                  "description": "The devices in the order of their enrolment.",
                  "content": {
                    "application/json": {"schema": {"$ref": "#/components/schemas/DeviceList"}}
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
          },
          "/v1/devices/self/epoch": {
            "post": {
              "operationId": "newEpoch",
              "summary": "Begins a new epoch of a device whose journal was lost or rolled back; \#
        its operations are numbered from 1 again.",
              "responses": {
                "200": {
                  "description": "The new epoch.",
                  "content": {
                    "application/json": {"schema": {"$ref": "#/components/schemas/EpochAnswer"}}
                  }
                },
                "400": {"$ref": "#/components/responses/Malformed"},
                "401": {"$ref": "#/components/responses/Unauthenticated"},
                "404": {"$ref": "#/components/responses/NotFound"},
                "405": {"$ref": "#/components/responses/Method"},
                "500": {"$ref": "#/components/responses/Failed"},
                "503": {"$ref": "#/components/responses/Busy"},
                "507": {"$ref": "#/components/responses/Full"},
                "413": {"$ref": "#/components/responses/TooLarge"}
              }
            }
          },
          "/v1/devices/self/token": {
            "post": {
              "operationId": "renewToken",
              "summary": "Renews the device's token. The old one ends when the new one is \#
        renewed; a token that is never renewed is valid for 90 days.",
              "responses": {
                "200": {
                  "description": "The new token.",
                  "content": {
                    "application/json": {"schema": {"$ref": "#/components/schemas/TokenAnswer"}}
                  }
                },
                "400": {"$ref": "#/components/responses/Malformed"},
                "401": {"$ref": "#/components/responses/Unauthenticated"},
                "404": {"$ref": "#/components/responses/NotFound"},
                "405": {"$ref": "#/components/responses/Method"},
                "500": {"$ref": "#/components/responses/Failed"},
                "503": {"$ref": "#/components/responses/Busy"},
                "507": {"$ref": "#/components/responses/Full"},
                "413": {"$ref": "#/components/responses/TooLarge"}
              }
            }
          },
          "/v1/devices/self/split": {
            "post": {
              "operationId": "split",
              "summary": "Makes one of two copies of a device a separate device.",
              "requestBody": {
                "required": true,
                "content": {
                  "application/json": {"schema": {"$ref": "#/components/schemas/SplitRequest"}}
                }
              },
              "responses": {
                "200": {
                  "description": "The copy is signed in as the new device.",
                  "content": {
                    "application/json": {"schema": {"$ref": "#/components/schemas/EnrolAnswer"}}
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
                "403": {"$ref": "#/components/responses/Code"},
                "409": {"$ref": "#/components/responses/Conflict"}
              }
            }
          },
          "/v1/devices/{device}": {
            "delete": {
              "operationId": "revoke",
              "summary": "Revokes a device of this account.",
              "parameters": [
                {
                  "name": "device",
                  "in": "path",
                  "required": true,
                  "schema": {"$ref": "#/components/schemas/Id"}
                }
              ],
              "responses": {
                "200": {
                  "description": "The device is revoked.",
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
                "413": {"$ref": "#/components/responses/TooLarge"}
              }
            }
          },
          "/v1/volumes": {
            "get": {
              "operationId": "volumes",
              "summary": "Lists the account's volumes.",
              "responses": {
                "200": {
                  "description": "The volumes, ordered by name.",
                  "content": {
                    "application/json": {"schema": {"$ref": "#/components/schemas/VolumeList"}}
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
            },
            "post": {
              "operationId": "openVolume",
              "summary": "Opens the account's volume of this name, or creates it.",
              "requestBody": {
                "required": true,
                "content": {
                  "application/json": {"schema": {"$ref": "#/components/schemas/VolumeRequest"}}
                }
              },
              "responses": {
                "200": {
                  "description": "The volume with its secrets.",
                  "content": {
                    "application/json": {"schema": {"$ref": \#
        "#/components/schemas/VolumeAnswer"}}
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
          }
        }
        """#
}
