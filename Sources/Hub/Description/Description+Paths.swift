extension Description {
    /// What is asked of the hub, by path.
    static let paths = #"""
        {
          "/healthz": {
            "get": {
              "operationId": "health",
              "summary": "Whether the hub answers, and its ledger.",
              "security": [],
              "responses": {
                "200": {
                  "description": "It does.",
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
              "summary": "For Prometheus.",
              "security": [],
              "responses": {
                "200": {
                  "description": "The text format, version 0.0.4.",
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
              "summary": "This.",
              "security": [],
              "responses": {
                "200": {
                  "description": "This.",
                  "content": {"application/json": {"schema": {"type": "object"}}}
                }
              }
            }
          },
          "/v1/enrol": {
            "post": {
              "operationId": "enrol",
              "summary": "A device signs in with a code.",
              "security": [],
              "requestBody": {
                "required": true,
                "content": {
                  "application/json": {"schema": {"$ref": "#/components/schemas/EnrolRequest"}}
                }
              },
              "responses": {
                "200": {
                  "description": "It is signed in; other tokens of the device hold no more.",
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
              "summary": "The token holds no more.",
              "responses": {
                "200": {
                  "description": "It is signed out.",
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
              "summary": "The account's devices.",
              "responses": {
                "200": {
                  "description": "In the order in which they came.",
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
              "summary": "A device that lost its journal, or found it rolled back, counts \#
        from 1 in a new epoch.",
              "responses": {
                "200": {
                  "description": "The epoch.",
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
              "summary": "The device's next token. The one that it has holds for a day more; a \#
        token that is never renewed holds for 90 days.",
              "responses": {
                "200": {
                  "description": "The token.",
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
              "summary": "One of two copies of a device becomes a device of its own.",
              "requestBody": {
                "required": true,
                "content": {
                  "application/json": {"schema": {"$ref": "#/components/schemas/SplitRequest"}}
                }
              },
              "responses": {
                "200": {
                  "description": "It is signed in as that.",
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
              "summary": "A device of this account may do nothing more here.",
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
                  "description": "It is revoked.",
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
              "summary": "The account's volumes.",
              "responses": {
                "200": {
                  "description": "By name.",
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
              "summary": "The account's volume of a name, made if there is none.",
              "requestBody": {
                "required": true,
                "content": {
                  "application/json": {"schema": {"$ref": "#/components/schemas/VolumeRequest"}}
                }
              },
              "responses": {
                "200": {
                  "description": "With its secrets.",
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
